"""Record batches compared with Kafka's own classes.

Kafka reads the batches that we build, and we read those that Kafka builds. The validators of both leaders
agree on invalid batches, down to the header that they would append.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from crc32c import crc32c

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode
from ruslo.protocol.message import Message
from ruslo.protocol.messages import leader_change_message, voters_record
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage
from ruslo.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from ruslo.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from ruslo.protocol.messages.voters_record import VotersRecord
from ruslo.records import batch as layout
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.compression import Codec, compress
from ruslo.records.control import end_txn_batch
from ruslo.records.reader import read_records
from ruslo.records.record import Record
from ruslo.records.validation import BatchRefused, BatchRules, accept_batch
from tests.interop.oracle import JavaOracle

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
NOW = 1_700_000_000_000
DIRECTORY = bytes(range(16))
RECORDS = [
    Record(
        index,
        NOW + index * 7 - (index % 3) * 1000,
        None if index % 5 == 0 else b"key-%d" % index,
        None if index % 7 == 3 else b"value of %d " % index * (index % 11) * 40,
        (("trace", b"\x00\xff"), ("пусто", None), ("", b"")) if index % 4 == 0 else (),
    )
    for index in range(400)
]
KEYED = [record._replace(key=b"k") for record in RECORDS[:20]]


class Oracle(JavaOracle):
    """One JVM that reads, builds and validates batches."""

    def query(self, *cells: object) -> tuple[str, list[str]]:
        verdict, _, rest = self.exchange(" ".join(map(str, cells))).partition(" ")
        return verdict, rest.split(" ")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("RecordsOracle") as oracle:
        yield oracle


def as_text(records: list[Record]) -> str:
    def content(value: bytes | None) -> str:
        return "-" if value is None else value.hex()

    return ";".join(
        f"{record.offset}|{record.timestamp}|{content(record.key)}|{content(record.value)}|"
        + ",".join(f"{name}={content(value)}" for name, value in record.headers)
        for record in records
    )


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_reads_our_batches(oracle: Oracle, codec: Codec) -> None:
    verdict, (found,) = oracle.query("read", build_batch(RECORDS, codec=codec).hex())
    assert verdict == "ok"
    assert found == as_text(RECORDS)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 1), (Codec.LZ4, 17), (Codec.ZSTD, -5), (Codec.ZSTD, 22)],
)
def test_kafka_reads_every_level(oracle: Oracle, codec: Codec, level: int) -> None:
    verdict, (found,) = oracle.query("read", build_batch(RECORDS, codec=codec, level=level).hex())
    assert verdict == "ok"
    assert found == as_text(RECORDS)


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_kafkas_batches(oracle: Oracle, codec: Codec) -> None:
    name = codec.name.lower()
    verdict, (batch,) = oracle.query("build", name, 0, 4711, 3, 90, "true", as_text(RECORDS))
    assert verdict == "ok"
    theirs = bytes.fromhex(batch)
    assert list(read_records(theirs)) == RECORDS
    ours = build_batch(
        RECORDS,
        codec=codec,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=90,
        attributes=layout.TRANSACTIONAL,
    )
    compared = layout.HEADER_SIZE if codec else len(ours)
    without_length_and_crc = slice(layout.ATTRIBUTES_AT, compared)
    assert ours[without_length_and_crc] == theirs[without_length_and_crc]
    assert ours[: layout.LENGTH_AT] == theirs[: layout.LENGTH_AT]


@pytest.mark.parametrize("commit", [True, False])
def test_markers_are_kafkas_byte_for_byte(oracle: Oracle, commit: bool) -> None:
    verdict, (theirs,) = oracle.query("marker", 55, NOW, 7, 4711, 3, str(commit).lower(), 12)
    assert verdict == "ok"
    ours = end_txn_batch(
        commit=commit,
        producer_id=4711,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp=NOW,
        base_offset=55,
        leader_epoch=7,
    )
    assert ours.hex() == theirs


def leader_change(voters: dict[int, bytes], granting: dict[int, bytes]) -> LeaderChangeMessage:
    def listed(ids: dict[int, bytes]) -> list[leader_change_message.Voter]:
        return [
            leader_change_message.Voter(voter_id=voter_id, voter_directory_id=directory_id)
            for voter_id, directory_id in ids.items()
        ]

    return LeaderChangeMessage(leader_id=3, voters=listed(voters), granting_voters=listed(granting))


VOTER = voters_record.Voter(
    voter_id=1,
    voter_directory_id=DIRECTORY,
    endpoints=[voters_record.Endpoint(name="CONTROLLER", host="localhost", port=40000)],
    kraft_version_feature=voters_record.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
)


@pytest.mark.parametrize(
    ("kind", "ours", "version"),
    [
        ("leader_change", leader_change({1: bytes(16), 3: bytes(16)}, {3: bytes(16)}), 0),
        ("leader_change_1", leader_change({3: DIRECTORY}, {3: DIRECTORY}), 1),
        ("snapshot_header", SnapshotHeaderRecord(last_contained_log_timestamp=77), 0),
        ("snapshot_footer", SnapshotFooterRecord(), 0),
        ("kraft_version", KRaftVersionRecord(kraft_version=1), 0),
        ("voters", VotersRecord(voters=[VOTER]), 0),
    ],
)
def test_kraft_records_are_kafkas_byte_for_byte(
    oracle: Oracle, kind: str, ours: Message, version: int
) -> None:
    ours.version = version  # type: ignore[attr-defined]  # their first field, of each of these messages
    assert oracle.query("control", kind) == ("ok", [ours.to_bytes(version).hex()])


def changed(batch: bytearray, layout_format: str, at: int, value: int) -> bytearray:
    struct.pack_into(layout_format, batch, at, value)
    set_crc(batch)
    return batch


def with_payload(codec: int, payload: bytes, count: int) -> bytearray:
    batch = build_batch([Record(index, NOW, b"k", b"v") for index in range(count)])[: layout.HEADER_SIZE]
    batch += payload
    struct.pack_into(">i", batch, layout.LENGTH_AT, len(batch) - layout.LENGTH_OVERHEAD)
    return changed(batch, ">h", layout.ATTRIBUTES_AT, codec)


def payload_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records)[layout.HEADER_SIZE :])


def gappy_payload(count: int) -> bytes:
    pieces = [bytearray(payload_of([Record(0, NOW, b"k", b"v")])) for _ in range(count)]
    for index, piece in enumerate(pieces):
        piece[3] = index * 4
    return b"".join(pieces)


FULL = LogConfig(ruslo_record_validation="full")
BATCHES: dict[str, Callable[[], bytearray]] = {
    "good": lambda: build_batch(KEYED),
    "good lz4": lambda: build_batch(KEYED, codec=3),
    "idempotent": lambda: build_batch(KEYED, producer_id=5, producer_epoch=1, base_sequence=8, codec=1),
    "transactional": lambda: build_batch(
        KEYED, producer_id=5, producer_epoch=1, base_sequence=8, attributes=layout.TRANSACTIONAL
    ),
    "no key": lambda: build_batch(RECORDS[:20]),
    "no key snappy": lambda: build_batch(RECORDS[:20], codec=2),
    "old": lambda: build_batch([KEYED[0], KEYED[1]._replace(timestamp=NOW - 90_000)]),
    "future": lambda: build_batch([KEYED[0], KEYED[1]._replace(timestamp=NOW + 90_000)], codec=4),
    "no timestamp": lambda: build_batch([Record(0, -1, b"k", b"v"), Record(1, -1, b"k", b"v")]),
    "old without key": lambda: build_batch([Record(0, NOW - 90_000, None, b"v"), Record(1, 1, b"k", b"v")]),
    "wrong maximum": lambda: changed(build_batch(KEYED), ">q", layout.MAX_TIMESTAMP_AT, NOW - 5000),
    "wrong maximum gzip": lambda: changed(
        build_batch(KEYED, codec=1), ">q", layout.MAX_TIMESTAMP_AT, NOW + 5
    ),
    "client's log append time": lambda: build_batch(KEYED, attributes=layout.LOG_APPEND_TIME),
    "client's log append time -1": lambda: changed(
        build_batch(KEYED, attributes=layout.LOG_APPEND_TIME), ">q", layout.MAX_TIMESTAMP_AT, -1
    ),
    "unknown bits": lambda: build_batch(KEYED, attributes=0x4740),
    "control": lambda: build_batch(KEYED, attributes=layout.CONTROL),
    "no sequence": lambda: build_batch(KEYED, producer_id=5, producer_epoch=1),
    "count 0": lambda: changed(build_batch(KEYED), ">i", layout.COUNT_AT, 0),
    "count too small": lambda: changed(build_batch(KEYED), ">i", layout.COUNT_AT, 19),
    "negative last offset": lambda: changed(build_batch(KEYED), ">i", layout.LAST_OFFSET_DELTA_AT, -1),
    "bytes behind": lambda: with_payload(0, payload_of(KEYED[:2]) + b"\x00", 2),
    "bytes behind gzip": lambda: with_payload(1, compress(1, payload_of(KEYED[:2]) + b"\x00"), 2),
    "one record short": lambda: with_payload(0, payload_of(KEYED[:2]), 3),
    "one record short lz4": lambda: with_payload(3, compress(3, payload_of(KEYED[:2])), 3),
    "garbage records": lambda: with_payload(0, b"\xff" * 40, 2),
    "garbage records zstd": lambda: with_payload(4, compress(4, b"\xff" * 40), 2),
    "garbage gzip": lambda: with_payload(1, b"\xff" * 40, 2),
    "garbage snappy": lambda: with_payload(2, b"\xff" * 40, 2),
    "garbage lz4": lambda: with_payload(3, b"\xff" * 40, 2),
    "garbage zstd": lambda: with_payload(4, b"\xff" * 40, 2),
    "codec 6": lambda: with_payload(6, b"\xff" * 40, 2),
    "gaps": lambda: with_payload(0, gappy_payload(3), 3),
    "gaps gzip": lambda: with_payload(1, compress(1, gappy_payload(3)), 3),
}
TOPICS = {
    "plain": FULL,
    "compacted": LogConfig(cleanup_policy=("compact",)),
    "window": LogConfig(
        ruslo_record_validation="full",
        message_timestamp_before_max_ms=60_000,
        message_timestamp_after_max_ms=60_000,
    ),
    "log append time": LogConfig(ruslo_record_validation="full", message_timestamp_type="LogAppendTime"),
    "uncompressed": LogConfig(ruslo_record_validation="full", compression_type="uncompressed"),
    "zstd": LogConfig(
        ruslo_record_validation="full", compression_type="zstd", message_timestamp_type="LogAppendTime"
    ),
    "lz4": LogConfig(ruslo_record_validation="full", compression_type="lz4"),
}


OUR_OWN = {"garbage records": ["INVALID_RECORD", ""]}
"""In uncompressed batches Kafka fails on a varint that is too long before it rejects the record."""
STRICTER = "gaps"
"""Kafka stores such an uncompressed batch, and a consumer of a compacted topic then loops."""


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("name", BATCHES)
def test_leader_decides_as_kafka(oracle: Oracle, topic: str, name: str) -> None:
    config = TOPICS[topic]
    verdict, response = oracle.query(
        "validate",
        config.compression_type,
        config.message_timestamp_type,
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
        str("compact" in config.cleanup_policy).lower(),
        NOW,
        BATCHES[name]().hex(),
    )
    rules = BatchRules.of(config)
    if name == STRICTER and config.compression_type not in ("zstd", "lz4"):
        assert verdict == "ok"
        with pytest.raises(BatchRefused) as caught:
            accept_batch(memoryview(BATCHES[name]()), rules, NOW)
        assert caught.value.code is ErrorCode.INVALID_RECORD
        return
    if verdict == "refused":
        with pytest.raises(BatchRefused) as caught:
            accept_batch(memoryview(BATCHES[name]()), rules, NOW)
        indexes = ",".join(str(error.batch_index) for error in caught.value.record_errors)
        assert [caught.value.code.name, indexes] == OUR_OWN.get(name, response)
        return
    assert verdict == "ok"
    accepted = accept_batch(memoryview(BATCHES[name]()), rules, NOW)
    assert accepted.log_append_time == (NOW if rules.log_append_time else -1)
    ours = bytes(accepted.batch)
    theirs = bytes.fromhex(response[1])
    assert crc32c(ours[layout.ATTRIBUTES_AT :]) == accepted.header[layout.CRC]
    assert list(read_records(ours)) == list(read_records(theirs))
    compared = layout.HEADER_SIZE if accepted.header[layout.ATTRIBUTES] & layout.CODEC_MASK else len(ours)
    assert ours[layout.ATTRIBUTES_AT : compared] == theirs[layout.ATTRIBUTES_AT : compared]
