"""Ruslo and Apache Kafka alternate on one data directory: each serves what the other wrote and continues."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import Sent, new_reader, produce_all, receive
from tests.support.network.ports import partitions_without_offsets
from tests.support.tools.java_tools import run_tool
from tests.support.tools.programs import require_tool

Quorum = Literal["standalone", "static"]
Ending = Literal["clean", "kill"]

SYSTEMS: dict[str, type[Node]] = {"ruslo": RusloNode, "kafka": ApacheKafka}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TOPIC_CONFIGS = {
    **{f"codec-{codec}": {"segment.bytes": "1048576", "index.interval.bytes": "4096"} for codec in CODECS},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9"},
    "recompressed": {"compression.type": "lz4", "retention.ms": "86400000"},
    "trimmed": {},
    "empty": {"max.message.bytes": "77777"},
}


@dataclass(frozen=True)
class Contents:
    """Everything that clients can see of a cluster and that must survive the exchange."""

    cluster_id: str
    topic_ids: dict[str, str]
    configs: dict[str, dict[str, str]]
    watermarks: dict[tuple[str, int], tuple[int, int]]
    records: dict[tuple[str, int], list[tuple[object, ...]]]


class Cluster:
    """One data directory, with the same ports for both systems."""

    def __init__(self, directory: Path, first: str, quorum: Quorum) -> None:
        self.directory = directory
        self.quorum = quorum
        self.node = self._node(first)
        self.admin: AdminClient

    def start(self) -> None:
        self.node.start()
        self.admin = AdminClient({"bootstrap.servers": self.node.bootstrap})

    def end(self, ending: Ending) -> None:
        if ending == "clean":
            self.node.stop()
        else:
            self.node.kill()

    def hand_over_to(self, system: str) -> None:
        before = self.node
        self.node = self._node(system, before)
        self.start()

    def _node(self, system: str, before: Node | None = None) -> Node:
        return SYSTEMS[system](
            self.directory / system,
            data_dirs=[self.directory / "data"],
            # After a kill the controller waits for the old session to end before it unfences the broker.
            properties={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"},
            quorum=self.quorum,
            cluster_id=before.cluster_id if before else None,
            port=before.port if before else None,
            controller_port=before.controller_port if before else None,
        )

    def create_topics(self) -> None:
        topics = [
            NewTopic(name, num_partitions=2, replication_factor=1, config=config)
            for name, config in TOPIC_CONFIGS.items()
        ]
        for future in self.admin.create_topics([*topics, NewTopic("dropped", 2, 1)]).values():
            future.result(timeout=30)

    def write(self, run: str) -> None:
        """Write records of every type to every topic but the empty one; `run` makes their values differ."""
        for codec in CODECS:
            records = [
                Sent(
                    value=f"{run} {number} ".encode() * 80,
                    key=b"%d" % number,
                    partition=number % 2,
                    headers=[("run", run.encode()), ("nothing", None)],
                    timestamp_ms=1_750_000_000_000 + number,
                )
                for number in range(1200)
            ]
            self._produce(f"codec-{codec}", records, {"compression.type": codec})
        keyed = [Sent(f"{run}-{number}".encode(), key=b"%d" % (number % 50)) for number in range(500)]
        self._produce("compacted", keyed, {"enable.idempotence": True})
        self._produce("recompressed", keyed, {"compression.type": "gzip"})
        self._produce("trimmed", [Sent(record.value, partition=0) for record in keyed], {})

    def change_metadata(self) -> None:
        """Delete and change topics, so that the metadata log holds more than creations."""
        trim = TopicPartition("trimmed", 0, 123)
        self.admin.delete_records([trim])[trim].result(timeout=30)
        self.admin.delete_topics(["dropped"])["dropped"].result(timeout=30)
        self.admin.create_partitions([NewPartitions("empty", 4)])["empty"].result(timeout=30)

    def _produce(self, topic: str, records: list[Sent], settings: dict[str, str | int | bool]) -> None:
        produce_all(self.node.bootstrap, topic, records, {"batch.num.messages": 100, **settings})

    def contents(self) -> Contents:
        partitions = self._partition_counts()
        self._wait_for_leaders(partitions)
        described = self.admin.describe_topics(TopicCollection(list(partitions)))
        reader = new_reader(self.node.bootstrap)
        try:
            watermarks = {
                (topic, partition): reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
                for topic, count in partitions.items()
                for partition in range(count)
            }
            reader.assign([TopicPartition(*tp, low) for tp, (low, _) in watermarks.items()])
            messages = receive(reader, sum(high - low for low, high in watermarks.values()), timeout_s=90)
        finally:
            reader.close()
        records: dict[tuple[str, int], list[tuple[object, ...]]] = {tp: [] for tp in watermarks}
        for message in messages:
            topic, partition = message.topic(), message.partition()
            assert topic is not None
            assert partition is not None
            read = (message.offset(), message.timestamp(), message.key(), message.value(), message.headers())
            records[topic, partition].append(read)
        return Contents(
            cluster_id=self.admin.describe_cluster().result(timeout=30).cluster_id,
            topic_ids={name: str(future.result(timeout=30).topic_id) for name, future in described.items()},
            configs={topic: self._changed_configs(topic) for topic in partitions},
            watermarks=watermarks,
            records=records,
        )

    def _partition_counts(self) -> dict[str, int]:
        topics = self.admin.list_topics(timeout=30).topics
        # Apache Kafka creates internal topics when a consumer looks up its coordinator; not compared.
        ours = sorted(name for name in topics if not name.startswith("__"))
        return {name: len(topics[name].partitions) for name in ours}

    def _wait_for_leaders(self, partitions: dict[str, int]) -> None:
        deadline = time.monotonic() + 30
        while partitions_without_offsets("127.0.0.1", self.node.port, partitions):
            assert time.monotonic() < deadline, f"partitions without a leader\n{self.node.log_tail()}"
            time.sleep(0.1)

    def _changed_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self.admin.describe_configs([resource])[resource].result(timeout=30)
        return {name: entry.value for name, entry in entries.items() if not entry.is_default}


@pytest.fixture(params=["ruslo first", "kafka first"])
def systems(request: pytest.FixtureRequest) -> list[str]:
    """The systems that run the directory alternately; with `--target=kafka` both are Apache Kafka."""
    require_tool("java")
    if request.config.getoption("--target") == "kafka":
        return ["kafka", "kafka", "kafka"]
    return ["ruslo", "kafka", "ruslo"] if request.param == "ruslo first" else ["kafka", "ruslo", "kafka"]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path, systems: list[str]) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, systems[0], request.param)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.node.kill()


@pytest.mark.parametrize(
    ("cluster", "ending"),
    [("standalone", "clean"), ("standalone", "kill"), ("static", "clean")],
    indirect=["cluster"],
)
def test_systems_alternate_on_one_directory(cluster: Cluster, systems: list[str], ending: Ending) -> None:
    failures: list[str] = []
    # One idempotent producer runs throughout: each system must know its sequence numbers.
    survivor = Producer(
        {
            "bootstrap.servers": cluster.node.bootstrap,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 200,
            "error_cb": lambda error: failures.append(str(error)) if error.fatal() else None,
        }
    )
    cluster.create_topics()
    cluster.write("first")
    cluster.change_metadata()
    for round_, system in enumerate(systems):
        if round_:
            before = cluster.contents()
            cluster.end(ending)
            cluster.hand_over_to(system)
            assert_same(before, cluster.contents())
        survivor.produce("codec-none", f"survivor in round {round_}", partition=0)
        assert survivor.flush(30) == 0
        cluster.write(f"round-{round_}")
    assert failures == []
    assert_start_without_warnings(cluster, ending)


def assert_same(before: Contents, after: Contents) -> None:
    """Assert that nothing changed. A failure shows only the differences."""
    assert after.cluster_id == before.cluster_id
    assert after.topic_ids == before.topic_ids
    assert after.configs == before.configs
    assert set(before.watermarks.items()) ^ set(after.watermarks.items()) == set()
    for tp, records in before.records.items():
        assert len(after.records[tp]) == len(records), tp
        pairs = zip(records, after.records[tp], strict=True)
        assert next((pair for pair in pairs if pair[0] != pair[1]), None) is None, tp


NOT_OUR_FAULT = (
    # Kafka also logs this for partitions that were added just before its own shutdown.
    "to exist, but it was missing. Creating",
    # Kafka logs this on a busy machine.
    "controller event queue overloaded",
    # A controller that starts quickly registers with itself before it leads (NotControllerException).
    "Unexpected error handling request RequestHeader(apiKey=CONTROLLER_REGISTRATION",
)


def assert_start_without_warnings(cluster: Cluster, ending: Ending) -> None:
    """Assert that Apache Kafka logged no warning about the directory."""
    for log_file in cluster.directory.glob("kafka/broker.log"):
        text = log_file.read_text()
        errors = [line for line in text.splitlines() if " ERROR " in line or " FATAL " in line]
        assert [line for line in errors if not any(each in line for each in NOT_OUR_FAULT)] == []
        if ending == "clean":
            # The last segment of the metadata log is read at every start; the others must not be.
            recovered = re.findall(r"Recovering unflushed segment .* recovered for (\S+)\.\n", text)
            assert set(recovered) <= {"__cluster_metadata-0"}
            assert "rebuilding index" not in text
            assert "corrupted" not in text


@pytest.mark.parametrize("ending", ["clean", "kill"])
def test_every_file_can_be_dumped(request: pytest.FixtureRequest, tmp_path: Path, ending: Ending) -> None:
    require_tool("java")
    cluster = Cluster(tmp_path, request.config.getoption("--target"), "standalone")
    cluster.start()
    try:
        cluster.create_topics()
        cluster.write("first")
        cluster.change_metadata()
    finally:
        cluster.end(ending)
    # Indexes of active segments are complete only after a clean shutdown; deleted topics keep theirs as is.
    kinds = {".log", ".index", ".timeindex", ".snapshot"} if ending == "clean" else {".log"}
    metadata: list[str] = []
    topics: list[str] = []
    for folder in (tmp_path / "data").iterdir():
        if folder.is_dir() and not folder.name.endswith("-delete"):
            files = [str(path) for path in sorted(folder.iterdir()) if path.suffix in kinds]
            (metadata if folder.name == "__cluster_metadata-0" else topics).extend(files)
    metadata += [str(path) for path in (tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint")]

    for arguments in (["--deep-iteration", "--print-data-log"], ["--index-sanity-check"]):
        assert_clean_dump(*arguments, "--files", ",".join(topics))
    assert_clean_dump("--cluster-metadata-decoder", "--files", ",".join(metadata))


def assert_clean_dump(*arguments: str) -> None:
    result = run_tool("org.apache.kafka.tools.DumpLogSegments", *arguments)
    assert result.returncode == 0, result.stderr
    # The tool expects every file to start at offset 0 and prints "-1 is followed by N" for later segments.
    complaint = re.compile(
        r"isvalid: false|[Mm]ismatch|invalid bytes|is followed by|out of order|not found|Ignoring|Exception"
    )
    later_segment = re.compile(r"^\s*-1 is followed by")
    lines = (result.stdout + result.stderr).splitlines()
    assert [line for line in lines if complaint.search(line) and not later_segment.search(line)] == []
