"""A leader's responses to invalid record batches, byte by byte over a plain socket.

The table holds for Apache Kafka (`--target=kafka`) and for Ruslo.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.records import batch as layout
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.compression import Codec
from ruslo.records.record import Record

TopicMaker = Callable[..., str]

NOW = int(time.time() * 1000)
HOUR_MS = 3_600_000
KEYED = [Record(index, NOW + index, b"k%d" % index, b"v" * index) for index in range(5)]


class Response(NamedTuple):
    code: str
    base_offset: int
    log_append_time: int
    record_errors: list[int]


def produce(bootstrap: str, topic: str, payload: bytes | bytearray) -> Response:
    """Produce version 8, acks=all, to partition 0; waits until the broker knows the topic."""
    name = topic.encode()
    request = struct.pack(">hhihhhiih", 0, 8, 1, -1, -1, -1, 10_000, 1, len(name)) + name
    request += struct.pack(">iii", 1, 0, len(payload)) + payload
    host, _, port = bootstrap.partition(":")
    deadline = time.monotonic() + 60
    while True:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            result = read_response(stream.read(size), len(name))
            stream.close()
        if result.code != "UNKNOWN_TOPIC_OR_PARTITION" or time.monotonic() > deadline:
            return result
        time.sleep(0.05)


def read_response(response: bytes, name_length: int) -> Response:
    # Correlation id, one topic with its name, one partition.
    pos = 4 + 4 + 2 + name_length + 4
    fields = struct.Struct(">ihqqqi")
    _, code, base_offset, log_append_time, _, errors = fields.unpack_from(response, pos)
    pos += fields.size
    indexes = []
    for _ in range(errors):
        index, length = struct.unpack_from(">ih", response, pos)
        indexes.append(index)
        pos += 6 + max(length, 0)
    return Response(ErrorCode(code).name, base_offset, log_append_time, indexes)


def valid(**fields: int) -> bytearray:
    return build_batch(KEYED, **fields)


def changed(batch: bytearray, field_format: str, at: int, value: int) -> bytearray:
    struct.pack_into(field_format, batch, at, value)
    set_crc(batch)
    return batch


def damaged(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


def large(codec: Codec = Codec.NONE) -> bytearray:
    return build_batch([Record(0, NOW, b"k", bytes(2000))], codec=codec)


PLAIN: dict[str, str] = {}
SMALL = {"max.message.bytes": "1000"}
COMPACTED = {"cleanup.policy": "compact"}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}

REJECTED: dict[str, tuple[Mapping[str, str], bytes | bytearray, str, list[int]]] = {
    "nothing": (PLAIN, b"", "INVALID_RECORD", []),
    "truncated in the length": (PLAIN, valid()[:11], "INVALID_RECORD", []),
    "truncated in the header": (PLAIN, valid()[:60], "INVALID_RECORD", []),
    "truncated in the records": (PLAIN, valid()[:90], "INVALID_RECORD", []),
    "two batches": (PLAIN, valid() + valid(), "INVALID_RECORD", []),
    "zeros behind": (PLAIN, valid() + bytes(12), "CORRUPT_MESSAGE", []),
    "magic 0": (PLAIN, changed(valid(), ">b", layout.MAGIC_AT, 0), "INVALID_RECORD", []),
    "magic 1": (PLAIN, changed(valid(), ">b", layout.MAGIC_AT, 1), "INVALID_RECORD", []),
    "magic 3": (PLAIN, changed(valid(), ">b", layout.MAGIC_AT, 3), "CORRUPT_MESSAGE", []),
    "length 13": (PLAIN, changed(valid(), ">i", layout.LENGTH_AT, 13), "CORRUPT_MESSAGE", []),
    "length -1": (PLAIN, changed(valid(), ">i", layout.LENGTH_AT, -1), "CORRUPT_MESSAGE", []),
    "base offset": (PLAIN, valid(base_offset=1), "INVALID_RECORD", []),
    "too large": (SMALL, large(), "MESSAGE_TOO_LARGE", []),
    "too large and damaged": (SMALL, damaged(large()), "MESSAGE_TOO_LARGE", []),
    "damaged": (PLAIN, damaged(valid()), "CORRUPT_MESSAGE", []),
    "codec 6": (PLAIN, changed(valid(), ">h", layout.ATTRIBUTES_AT, 6), "UNKNOWN_SERVER_ERROR", []),
    "count 0": (PLAIN, changed(valid(), ">i", layout.COUNT_AT, 0), "INVALID_RECORD", []),
    "count 4 of 5": (PLAIN, changed(valid(), ">i", layout.COUNT_AT, 4), "INVALID_RECORD", []),
    "control": (PLAIN, valid(attributes=layout.CONTROL), "INVALID_RECORD", []),
    "no sequence": (PLAIN, valid(producer_id=3, producer_epoch=0), "INVALID_RECORD", []),
    "no keys": (
        COMPACTED,
        build_batch([KEYED[0], Record(1, NOW, None, b"v")], codec=Codec.LZ4),
        "INVALID_RECORD",
        [1],
    ),
    "from the future": (
        PLAIN,
        build_batch([KEYED[0], Record(1, NOW + 3 * HOUR_MS, b"k", b"v")]),
        "INVALID_TIMESTAMP",
        [1],
    ),
    "the client's append time": (
        APPEND_TIME,
        valid(attributes=layout.LOG_APPEND_TIME),
        "INVALID_TIMESTAMP",
        [0, 1, 2, 3, 4],
    ),
    "too large once decompressed": (
        SMALL | {"compression.type": "uncompressed"},
        large(Codec.ZSTD),
        "MESSAGE_TOO_LARGE",
        [],
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str, bootstrap: str, new_topic: TopicMaker) -> None:
    config, payload, code, record_errors = REJECTED[case]
    topic = new_topic(config=config)
    assert produce(bootstrap, topic, payload) == Response(code, -1, -1, record_errors)
    assert produce(bootstrap, topic, valid(codec=Codec.GZIP)).base_offset == 0, "no record was appended"


ACCEPTED: dict[str, bytes | bytearray] = {
    "a byte behind": valid() + b"\x01",
    "a truncated batch behind": valid() + valid()[:70],
    "attribute bits without meaning": changed(valid(), ">h", layout.ATTRIBUTES_AT, 0x7F40),
    "no timestamps": build_batch([Record(0, -1, b"k", b"v")]),
    "append time that is not the topic's": valid(attributes=layout.LOG_APPEND_TIME),
    "a maximum that is too low": changed(valid(), ">q", layout.MAX_TIMESTAMP_AT, 5),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str, bootstrap: str, new_topic: TopicMaker) -> None:
    assert produce(bootstrap, new_topic(), ACCEPTED[case]) == Response("NONE", 0, -1, [])


def test_log_append_time_is_returned(bootstrap: str, new_topic: TopicMaker) -> None:
    result = produce(bootstrap, new_topic(config=APPEND_TIME), valid())
    assert (result.code, result.base_offset) == ("NONE", 0)
    assert NOW - 60_000 < result.log_append_time < NOW + HOUR_MS
