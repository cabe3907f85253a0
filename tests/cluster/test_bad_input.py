"""Hostile and broken input to a real broker process.

Each input gets the right error, is logged once, affects no other client and changes nothing: after every test
an ordinary client still produces and consumes.
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.records import batch as layout
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.compression import Codec, compress
from ruslo.records.record import Record
from ruslo.records.varint import encode_varint
from ruslo.testing import BrokerFailed, EmbeddedBroker
from tests.support.clients.bystander import PlainSocket, Witness, resident_bytes
from tests.support.clients.raw_client import frame, request_bytes

RUSLO = Path(sys.executable).parent / "ruslo"
MAX_FRAME = 1_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"socket.request.max.bytes": str(MAX_FRAME)}) as broker:
        yield broker


@pytest.fixture(scope="module")
def witness(broker: EmbeddedBroker) -> Iterator[Witness]:
    witness = Witness(broker.bootstrap)
    yield witness
    witness.close()


def logged_problems(broker: EmbeddedBroker) -> list[str]:
    """Everything that the broker logged above INFO, and tracebacks."""
    return [
        line
        for line in broker.output(1_000_000).splitlines()
        if any(word in line for word in (" WARNING ", " ERROR ", " CRITICAL ", "Traceback"))
    ]


# -- frames --------------------------------------------------------------------------------------------------

HEADER = struct.pack(">hhih", 3, 1, 1, -1)

TLS_HELLO = bytes.fromhex("16030100f8010000f40303") + bytes(240)
BAD_BYTES = {
    "frame of 2 GiB": (struct.pack(">i", 2**31 - 1) + b"x" * 100, "2147483647 bytes"),
    "frame above the limit": (struct.pack(">i", MAX_FRAME + 1) + b"x" * 100, str(MAX_FRAME + 1)),
    "negative frame": (struct.pack(">i", -1) + b"x" * 100, "-1 bytes"),
    "very negative frame": (struct.pack(">i", -(2**31)), "-2147483648 bytes"),
    "text of another protocol": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request"),
    "TLS hello": (TLS_HELLO, "a TLS handshake"),
    "empty frame": (frame(b""), "too short"),
    "frame of 3 bytes": (frame(b"abc"), "too short"),
    "unknown API": (frame(struct.pack(">hhih", 999, 0, 1, -1)), "API key 999"),
    "unsupported version": (frame(struct.pack(">hhih", 3, 99, 1, -1)), "Metadata v99"),
    "garbage after a header": (frame(HEADER + b"\x00\x00\x00\x07\xde\xad\xbe\xef"), "malformed Metadata"),
    "huge array": (frame(HEADER + struct.pack(">i", 2**31 - 1)), "malformed Metadata"),
    "huge string": (frame(HEADER + struct.pack(">ih", 1, 32767) + b"a"), "malformed Metadata"),
    "truncated body": (frame(request_bytes(MetadataRequest(), 9)[:-1]), "malformed Metadata"),
    "truncated Produce": (frame(struct.pack(">hhihhhi", 0, 3, 1, -1, -1, 1, 100)), "Produce v3"),
    "truncated Fetch": (frame(struct.pack(">hhihi", 1, 4, 1, -1, -1)), "Fetch v4"),
}


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bytes_that_are_not_a_request(broker: EmbeddedBroker, witness: Witness, name: str) -> None:
    data, reason = BAD_BYTES[name]
    before = logged_problems(broker)
    # Each comes from another address: errors of one address are logged once a minute.
    with PlainSocket(broker.bootstrap, f"127.0.1.{1 + list(BAD_BYTES).index(name)}") as bad:
        bad.send(data)
        assert bad.read_to_the_end() == b""
    new = logged_problems(broker)[len(before) :]
    assert len(new) == 1, new
    assert reason in new[0]
    witness.check()


def test_a_client_that_reconnects_again_and_again_is_logged_once(
    broker: EmbeddedBroker, witness: Witness
) -> None:
    before = logged_problems(broker)
    for source in ("127.0.2.1", "127.0.2.2"):
        for _ in range(100):
            with PlainSocket(broker.bootstrap, source) as bad:
                bad.send(TLS_HELLO)
                assert bad.read_to_the_end() == b""
    new = logged_problems(broker)[len(before) :]
    assert [("127.0.2.1:" in line, "127.0.2.2:" in line) for line in new] == [(True, False), (False, True)]
    witness.check()


def test_connections_closed_in_the_middle_of_a_request(broker: EmbeddedBroker, witness: Witness) -> None:
    before = logged_problems(broker)
    request = frame(request_bytes(MetadataRequest(), 9))
    for size in range(1, len(request)):
        with PlainSocket(broker.bootstrap) as bad:
            bad.send(request[:size])
    # Many clients announce large requests and send little: an announced size alone must not cost memory.
    resident = resident_bytes(broker.pid)
    announcing = [PlainSocket(broker.bootstrap) for _ in range(100)]
    for each in announcing:
        each.send(struct.pack(">i", MAX_FRAME) + b"x")
    witness.check()
    assert resident_bytes(broker.pid) - resident < 10_000_000
    for each in announcing:
        each.close()
    witness.check()
    assert logged_problems(broker) == before, "a client that disconnects is not logged as an error"


def test_an_unknown_version_of_api_versions(broker: EmbeddedBroker, witness: Witness) -> None:
    before = logged_problems(broker)
    with PlainSocket(broker.bootstrap) as client:
        client.send(frame(struct.pack(">hhih", 18, 77, 5, -1) + b"unknown future fields"))
        body = client.read_frame()
        assert struct.unpack_from(">i", body)[0] == 5
        response = ApiVersionsResponse.from_bytes(body[4:], 0)
        assert ErrorCode(response.error_code) is ErrorCode.UNSUPPORTED_VERSION
        assert {0, 1, 3, 18} <= {each.api_key for each in response.api_keys}
        client.send(frame(request_bytes(ApiVersionsRequest(), 2)))
        assert ApiVersionsResponse.from_bytes(client.read_frame()[4:], 2).error_code == 0
    assert logged_problems(broker) == before
    witness.check()


# -- batches -------------------------------------------------------------------------------------------------


def good_batch() -> bytearray:
    return build_batch([Record(0, 1_700_000_000_000, b"key", b"value")])


def altered(field_format: str, at: int, value: int, *, crc: bool = True) -> bytearray:
    batch = good_batch()
    struct.pack_into(field_format, batch, at, value)
    if crc:
        set_crc(batch)
    return batch


def with_records(payload: bytes, codec: Codec, count: int = 1) -> bytearray:
    """A batch with a valid header and the given bytes as its records."""
    batch = good_batch()[: layout.HEADER_SIZE] + payload
    struct.pack_into(">i", batch, layout.LENGTH_AT, len(batch) - layout.LENGTH_OVERHEAD)
    struct.pack_into(">h", batch, layout.ATTRIBUTES_AT, codec)
    struct.pack_into(">i", batch, layout.LAST_OFFSET_DELTA_AT, count - 1)
    struct.pack_into(">i", batch, layout.COUNT_AT, count)
    set_crc(batch)
    return batch


BOMB_BYTES = 200_000_000


def bomb(codec: Codec) -> bytearray:
    """A small batch with one huge record of zeros."""
    if codec is Codec.SNAPPY:
        # A bare snappy block only claims its size.
        return with_records(b"\x80\x80\x80\xc0\x0f" + b"\x00a", codec)
    record = b"\x00\x00\x00" + encode_varint(1) + b"k" + encode_varint(BOMB_BYTES)
    head = encode_varint(len(record) + BOMB_BYTES + 1) + record
    return with_records(compress(codec, head + bytes(BOMB_BYTES) + b"\x00", 1), codec)


BAD_BATCHES = {
    "wrong CRC": (altered(">q", layout.MAX_TIMESTAMP_AT, 5, crc=False), ErrorCode.CORRUPT_MESSAGE),
    "length beyond the data": (altered(">i", layout.LENGTH_AT, 10_000), ErrorCode.INVALID_RECORD),
    "length of 2 GiB": (altered(">i", layout.LENGTH_AT, 2**31 - 1), ErrorCode.INVALID_RECORD),
    "negative length": (altered(">i", layout.LENGTH_AT, -5), ErrorCode.CORRUPT_MESSAGE),
    "length too short for a header": (altered(">i", layout.LENGTH_AT, 30), ErrorCode.CORRUPT_MESSAGE),
    "count of 2 billion": (altered(">i", layout.COUNT_AT, 2**31 - 1), ErrorCode.INVALID_RECORD),
    "negative count": (altered(">i", layout.COUNT_AT, -1), ErrorCode.INVALID_RECORD),
    "count of none": (altered(">i", layout.COUNT_AT, 0), ErrorCode.INVALID_RECORD),
    "old magic": (altered(">b", layout.MAGIC_AT, 1), ErrorCode.INVALID_RECORD),
    "future magic": (altered(">b", layout.MAGIC_AT, 3), ErrorCode.CORRUPT_MESSAGE),
    "unknown codec": (altered(">h", layout.ATTRIBUTES_AT, 7), ErrorCode.UNKNOWN_SERVER_ERROR),
    "base offset": (altered(">q", 0, 17), ErrorCode.INVALID_RECORD),
    "nothing": (bytearray(), ErrorCode.INVALID_RECORD),
    "text": (bytearray(b"hello, this is not a batch " * 5), None),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_batches_with_false_headers(broker: EmbeddedBroker, witness: Witness, name: str) -> None:
    batch, code = BAD_BATCHES[name]
    with PlainSocket(broker.bootstrap) as client:
        end = client.end_offset(Witness.TOPIC)
        response, message = client.produce(Witness.TOPIC, 0, batch)
        assert response in ((code,) if code else (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE))
        assert message, "the producer gets a message"
        assert client.end_offset(Witness.TOPIC) == end
    witness.check()


@pytest.fixture(scope="module")
def decoding_topics(witness: Witness) -> list[str]:
    """Topics whose batches the broker must decode."""
    witness.create("recompressed", compression_type="uncompressed")
    witness.create("compacted", cleanup_policy="compact")
    witness.create("validated", ruslo_record_validation="full")
    return ["recompressed", "compacted", "validated"]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD], ids=lambda c: c.name)
def test_decompression_bombs(
    broker: EmbeddedBroker, witness: Witness, decoding_topics: list[str], codec: Codec
) -> None:
    batch = bomb(codec)
    assert len(batch) < MAX_FRAME - 1000
    # Snappy cannot compress that much into a batch: only the claimed size is false.
    wanted = ErrorCode.UNKNOWN_SERVER_ERROR if codec is Codec.SNAPPY else ErrorCode.MESSAGE_TOO_LARGE
    resident = resident_bytes(broker.pid)
    for topic in decoding_topics:
        with PlainSocket(broker.bootstrap) as client:
            code, message = client.produce(topic, 0, batch)
            assert code is wanted, message
            assert client.end_offset(topic) == 0
    assert resident_bytes(broker.pid) - resident < BOMB_BYTES
    witness.check()


def test_a_bomb_that_was_not_decoded_is_harmless_in_a_search_by_time(
    broker: EmbeddedBroker, witness: Witness
) -> None:
    witness.create("opaque")
    resident = resident_bytes(broker.pid)
    with PlainSocket(broker.bootstrap) as client:
        # No config of this topic makes the broker decode records.
        assert client.produce("opaque", 0, bomb(Codec.ZSTD))[0] is ErrorCode.NONE
        partition = ListOffsetsPartition(partition_index=0, timestamp=1)
        topic = ListOffsetsTopic(name="opaque", partitions=[partition])
        client.send(frame(request_bytes(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5)))
        response = ListOffsetsResponse.from_bytes(client.read_frame()[4:], 5)
        assert ErrorCode(response.topics[0].partitions[0].error_code) is ErrorCode.CORRUPT_MESSAGE
    assert resident_bytes(broker.pid) - resident < BOMB_BYTES
    witness.check()


def test_records_that_contradict_their_batch(
    broker: EmbeddedBroker, witness: Witness, decoding_topics: list[str]
) -> None:
    payload = bytes(good_batch()[layout.HEADER_SIZE :])
    lies = {
        "fewer records than counted": with_records(payload, Codec.NONE, count=5),
        "a count of 50 million": with_records(payload, Codec.NONE, count=50_000_000),
        "a record longer than the batch": with_records(encode_varint(1 << 30) + payload[1:], Codec.NONE),
        "a record of negative length": with_records(encode_varint(-9) + payload[1:], Codec.NONE),
        "a length without end": with_records(b"\xff" * 20, Codec.NONE),
        "not gzip at all": with_records(b"not gzip at all", Codec.GZIP),
        "half of a gzip stream": with_records(gzip.compress(payload)[:-6], Codec.GZIP),
        "garbage in zstd": with_records(b"\x28\xb5\x2f\xfd" + b"\xff" * 20, Codec.ZSTD),
    }
    for topic in decoding_topics:
        with PlainSocket(broker.bootstrap) as client:
            for name, batch in lies.items():
                if topic == "recompressed" and not batch[layout.ATTRIBUTES_AT + 1]:
                    continue  # it already has the codec that the topic wants
                code, message = client.produce(topic, 0, batch)
                assert code is not ErrorCode.NONE, name
                assert message, name
            assert client.end_offset(topic) == 0
    witness.check()


# -- names and settings --------------------------------------------------------------------------------------


def error_of(future: object) -> ErrorCode:
    with pytest.raises(KafkaException) as refused:
        future.result(timeout=60)  # type: ignore[attr-defined]  # a future of the admin client
    return ErrorCode(refused.value.args[0].code())


@pytest.mark.parametrize("name", ["a/b", "..", ".", "x" * 250, "sp ace", "ünicode", "a\nb"])
def test_topic_names_that_are_invalid(broker: EmbeddedBroker, witness: Witness, name: str) -> None:
    known = set(witness.admin.list_topics(timeout=60).topics)
    future = witness.admin.create_topics([NewTopic(name, 1, 1)])[name]
    assert error_of(future) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert set(witness.admin.list_topics(timeout=60).topics) == known
    witness.check()


def test_topics_and_settings_that_are_invalid(broker: EmbeddedBroker, witness: Witness) -> None:
    admin = witness.admin
    known = set(admin.list_topics(timeout=60).topics)
    before = logged_problems(broker)
    for topic, code in (
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 1, config={"no.such.setting": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, config={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, config={"segment.bytes": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, config={"cleanup.policy": "burn"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(Witness.TOPIC, 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
    ):
        assert error_of(admin.create_topics([topic])[topic.topic]) is code
    for count, code in ((1, ErrorCode.INVALID_PARTITIONS), (20_000, ErrorCode.POLICY_VIOLATION)):
        future = admin.create_partitions([NewPartitions(Witness.TOPIC, count)])[Witness.TOPIC]
        assert error_of(future) is code
    for key, value in (("no.such.setting", "1"), ("retention.ms", "soon"), ("max.message.bytes", "-5")):
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            Witness.TOPIC,
            incremental_configs=[ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)],
        )
        future = admin.incremental_alter_configs([resource])[resource]
        assert error_of(future) is ErrorCode.INVALID_CONFIG
    assert error_of(admin.delete_topics(["nowhere"])["nowhere"]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(admin.list_topics(timeout=60).topics) == known
    assert len(logged_problems(broker)) <= len(before)
    witness.check()


# -- disks ---------------------------------------------------------------------------------------------------


class Volume:
    """A small file system."""

    def __init__(self, path: Path, size_mb: int) -> None:
        self.path = path
        self.data = path / "data"
        path.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(path)], capture_output=True
        )
        if mounted.returncode:
            pytest.skip("only root may mount the small file system that this test needs")
        self.data.mkdir()

    def vanish(self) -> None:
        """Behave like a disk that is pulled out: open files stay usable, names disappear."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    volume = Volume(tmp_path / "volume", 12)
    yield volume
    volume.vanish()


def partitions_by_directory(data: Path, topic: str) -> list[int]:
    """The partitions of a topic in a log directory."""
    return sorted(int(path.name.rpartition("-")[2]) for path in data.glob(f"{topic}-*") if path.is_dir())


def properties_for(*directories: Path) -> dict[str, str]:
    return {
        "log.dirs": ",".join(map(str, directories)),
        "replica.high.watermark.checkpoint.interval.ms": "50",
        "log.flush.offset.checkpoint.interval.ms": "50",
    }


def test_a_full_disk(tmp_path: Path, volume: Volume) -> None:
    first = tmp_path / "first"
    first.mkdir()
    batch = build_batch([Record(0, 1_700_000_000_000, b"key", bytes(200_000))])
    with (
        EmbeddedBroker(properties_for(first, volume.data), data_dir=first) as broker,
        PlainSocket(broker.bootstrap) as client,
    ):
        witness = Witness(broker.bootstrap)
        witness.create("t", 4)
        full = partitions_by_directory(volume.data, "t")
        spared = partitions_by_directory(first, "t")
        assert full
        assert spared
        filler = volume.path / "filler"
        filler.write_bytes(bytes(6_000_000))
        acked = 0
        while (response := client.produce("t", full[0], batch))[0] is ErrorCode.NONE:
            acked += 1
            assert acked < 100
        assert response[0] is ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space left on device" in (response[1] or "")
        for _ in range(20):
            assert client.produce("t", full[0], batch)[0] is ErrorCode.KAFKA_STORAGE_ERROR
        time.sleep(0.3)  # checkpoints fail for the same reason
        for index in spared:
            assert client.produce("t", index, batch)[0] is ErrorCode.NONE
        assert client.end_offset("t", full[0]) == acked
        witness.check()
        reports = [line for line in logged_problems(broker) if "No space left" in line]
        assert len(reports) == 1, reports

        filler.unlink()
        for index in full:
            assert client.produce("t", index, batch)[0] is ErrorCode.NONE
        assert client.end_offset("t", full[0]) == acked + 1
        witness.check()
        witness.close()
        broker.restart()
        with PlainSocket(broker.bootstrap) as later:
            assert later.end_offset("t", full[0]) == acked + 1


def test_a_log_directory_that_fails(tmp_path: Path, volume: Volume) -> None:
    first = tmp_path / "first"
    first.mkdir()
    batch = build_batch([Record(0, 1_700_000_000_000, b"key", b"value")])
    with (
        EmbeddedBroker(properties_for(first, volume.data), data_dir=first) as broker,
        PlainSocket(broker.bootstrap) as client,
    ):
        witness = Witness(broker.bootstrap)
        witness.create("t", 4)
        lost = partitions_by_directory(volume.data, "t")
        spared = partitions_by_directory(first, "t")
        for index in range(4):
            assert client.produce("t", index, batch)[0] is ErrorCode.NONE
        volume.vanish()
        deadline = time.monotonic() + 60
        while client.produce("t", lost[0], batch)[0] is ErrorCode.NONE:
            assert time.monotonic() < deadline, "the broker does not detect the failed directory"
            time.sleep(0.02)
        for index in lost:
            assert client.produce("t", index, batch)[0] is ErrorCode.KAFKA_STORAGE_ERROR
        for index in spared:
            assert client.produce("t", index, batch)[0] is ErrorCode.NONE
            assert client.end_offset("t", index) == 2
        witness.check()
        offline = [line for line in logged_problems(broker) if "goes offline" in line]
        assert len(offline) == 1, offline
        assert str(volume.data) in offline[0]
        witness.create("later", 2)
        assert len(partitions_by_directory(first, "later")) == 2
        witness.close()


def test_the_only_log_directory_fails(tmp_path: Path, volume: Volume) -> None:
    broker = EmbeddedBroker(properties_for(volume.data), data_dir=volume.data).start()
    witness = Witness(broker.bootstrap)
    witness.check()
    volume.vanish()
    witness.close()
    deadline = time.monotonic() + 60
    while broker.running:
        with contextlib.suppress(ConnectionError), PlainSocket(broker.bootstrap) as client:
            client.produce(Witness.TOPIC, 0, good_batch())
        assert time.monotonic() < deadline, "a broker without a log directory keeps running"
        time.sleep(0.05)
    with pytest.raises(BrokerFailed, match=r"(?s)has failed|failed:"):
        broker.close()


# -- starts that are refused ---------------------------------------------------------------------------------


def refused_start(properties: dict[str, str] | None = None, **options: object) -> str:
    broker = EmbeddedBroker(properties, **options)  # type: ignore[arg-type]  # its own options
    try:
        with pytest.raises(BrokerFailed) as refused:
            broker.start()
    finally:
        broker.close()
    assert "Traceback" not in str(refused.value)
    return str(refused.value)


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: another process listens there" in refused_start(port=port)


def test_a_data_directory_that_another_node_holds(broker: EmbeddedBroker, witness: Witness) -> None:
    assert f"{broker.data_dir} is in use: another process, " in refused_start(data_dir=broker.data_dir)
    witness.check()


def test_a_data_directory_of_another_cluster_or_node(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with EmbeddedBroker(data_dir=tmp_path / name):
            pass
    both = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    before = (tmp_path / "b" / "meta.properties").read_bytes()
    problem = refused_start(both, data_dir=tmp_path / "a")
    assert "cluster" in problem
    assert str(tmp_path / "b") in problem
    assert "belongs to node 1, this is node 7" in refused_start({"node.id": "7"}, data_dir=tmp_path / "a")
    assert (tmp_path / "b" / "meta.properties").read_bytes() == before
    with EmbeddedBroker(data_dir=tmp_path / "a") as unharmed:
        witness = Witness(unharmed.bootstrap)
        witness.check()
        witness.close()


def test_an_unformatted_directory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:0\nlog.dirs={tmp_path / 'data'}\n"
    )
    result = subprocess.run(
        [RUSLO, "serve", "-c", tmp_path / "server.properties"], capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 1
    assert "is not formatted" in result.stderr
    assert "ruslo storage format" in result.stderr
    assert "Traceback" not in result.stderr
    assert list((tmp_path / "data").iterdir()) == [], "a failed start must not change the directory"


def test_settings_that_are_unknown_or_without_effect() -> None:
    properties = {
        "log.retension.ms": "1000",
        "something.else.entirely": "1",
        "sasl.kerberos.min.time.before.relogin": "5",
        "background.threads": "3",
    }
    with EmbeddedBroker(properties) as broker:
        lines = logged_problems(broker)
    assert (
        sum("unknown setting log.retension.ms is ignored; did you mean log.retention.ms?" in x for x in lines)
        == 1
    )
    assert sum("unknown setting something.else.entirely is ignored" in line for line in lines) == 1
    (without_effect,) = [line for line in lines if "without effect" in line]
    assert "sasl.kerberos.min.time.before.relogin" in without_effect
    assert "background.threads" in without_effect
    assert "log.retension.ms" not in without_effect
