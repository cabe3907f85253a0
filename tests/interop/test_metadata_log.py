"""The metadata log, its snapshots and the formatted directory are Apache Kafka's own, in both directions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.node.bootstrap_features import initial_features
from ruslo.broker.node.format import QuorumOptions, format_storage
from ruslo.broker.quorum.raft import RaftDriver
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.records import METADATA_VERSION_NAMES
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.clock import SystemClock
from ruslo.model.ids import uuid_to_text
from ruslo.protocol.message import Message, Struct
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.config_record import ConfigRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.meta_properties import read_meta_properties
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.metadata_log import MetadataNode, remove_topic, running, topic, until
from tests.support.tools.java_tools import ToolResult, run_tool
from tests.support.tools.programs import require_tool

Quorum = Literal["standalone", "static"]
TOPIC = "made-by-kafka"


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    require_tool("java")


@dataclass(frozen=True)
class DumpedRecord:
    offset: int
    type: str
    data: dict[str, object]


def dump(*paths: Path) -> str:
    files = ",".join(map(str, paths))
    result = run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files
    )
    assert result.returncode == 0, result.stderr
    assert "isvalid: false" not in result.stdout
    assert "Could not" not in result.stdout + result.stderr
    return result.stdout


def metadata_records(dumped: str) -> list[DumpedRecord]:
    found = re.findall(r"^\| offset: (\d+) .* payload: (\{.*\})$", dumped, re.MULTILINE)
    parsed = [(int(offset), json.loads(payload)) for offset, payload in found]
    return [DumpedRecord(offset, payload["type"], payload["data"]) for offset, payload in parsed]


def control_records(dumped: str) -> list[str]:
    return re.findall(r"(LeaderChange|KRaftVersion|KRaftVoters|SnapshotHeader|SnapshotFooter)", dumped)


def as_json(value: object, like: object) -> object:
    """A field as Kafka's tool prints it; ``like`` has the printed fields of a struct."""
    if isinstance(value, Struct):
        assert isinstance(like, dict)
        return {name: as_json(getattr(value, snake_case(name)), part) for name, part in like.items()}
    if isinstance(value, list):
        assert isinstance(like, list)
        assert len(value) == len(like)
        return [as_json(item, part) for item, part in zip(value, like, strict=True)]
    return uuid_to_text(value) if isinstance(value, bytes) else value


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


class Collector:
    """A listener that keeps every committed record with its offset."""

    def __init__(self) -> None:
        self.records: list[tuple[int, Message]] = []
        self.led: list[int] = []

    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        raise AssertionError("unexpected snapshot")

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        self.records += enumerate(records, base_offset)

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        self.led.append(epoch)


SNAPSHOT_AT_ONCE = {
    "metadata.log.max.record.bytes.between.snapshots": "1",
    "metadata.max.retention.bytes": "1",
}


async def load(node: ApacheKafka, *, with_snapshots: bool) -> Collector:
    """Run our driver, and nothing else, on the directory of a stopped Apache Kafka node.

    With ``with_snapshots`` it also changes a topic and replaces the log by snapshots.
    """
    directory = node.data_dirs[0]
    disk = LocalDisk(str(directory))
    meta = read_meta_properties(disk)
    assert meta is not None
    collector, image = Collector(), MetadataLoader()
    failures: list[BaseException] = []
    driver = RaftDriver(
        config=BrokerConfig.from_properties(node.server_properties() | SNAPSHOT_AT_ONCE),
        disk=disk,
        clock=SystemClock(),
        scheduler=Scheduler(SystemClock()),
        random=Random(),
        directory_id=meta.directory_id,
        endpoints=(Endpoint("CONTROLLER", "127.0.0.1", node.controller_port),),
        on_failure=failures.append,
    )
    await driver.start([collector, image])
    if with_snapshots:
        await driver.write_snapshot(*driver.applied, image.snapshot_records())
        change = ConfigRecord(resource_type=2, resource_name=TOPIC, name="max.message.bytes", value="12345")
        offset = driver.append(driver.epoch, [(change, 0)])
        await until(lambda: driver.applied.offset > offset)
        await driver.write_snapshot(*driver.applied, image.snapshot_records())
        assert driver.start_offset == driver.end_offset
    await driver.stop()
    assert not failures
    return collector


def topic_command(node: ApacheKafka, *arguments: str) -> ToolResult:
    return run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", node.bootstrap, "--topic", TOPIC, *arguments),
    )


def quorum_state(node: ApacheKafka) -> dict[str, object]:
    path = node.data_dirs[0] / "__cluster_metadata-0" / "quorum-state"
    state = json.loads(path.read_text())
    assert isinstance(state, dict)
    return state


@pytest.mark.parametrize(("quorum", "ending"), [("standalone", "kill"), ("static", "clean")])
def test_apache_kafka_and_the_driver_alternate(tmp_path: Path, quorum: Quorum, ending: str) -> None:
    # After a kill the controller waits for the old session to end before it unfences the broker.
    sessions = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    kafka = ApacheKafka(tmp_path, quorum=quorum, properties=sessions)
    kafka.start()
    created = topic_command(kafka, "--create", "--partitions", "2", "--config", "retention.ms=1000")
    assert created.returncode == 0, created.stderr
    if ending == "clean":
        kafka.stop()
    else:
        kafka.kill()
    log = kafka.data_dirs[0] / "__cluster_metadata-0" / "00000000000000000000.log"
    markers = ("BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD")
    expected = [record for record in metadata_records(dump(log)) if record.type not in markers]
    epoch_before = quorum_state(kafka)["leaderEpoch"]
    assert isinstance(epoch_before, int)

    with_snapshots = quorum == "standalone"
    collected = asyncio.run(load(kafka, with_snapshots=with_snapshots))

    assert collected.led == [epoch_before + 1, epoch_before + 1]  # elected, resigned
    for dumped, (offset, record) in zip(expected, collected.records, strict=False):
        assert (dumped.offset, dumped.type) == (offset, snake_case(type(record).__name__).upper())
        assert as_json(record, dumped.data) == dumped.data
    assert len(collected.records) == len(expected) + with_snapshots
    assert {"TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"} <= {record.type for record in expected}

    # Kafka continues from the driver's snapshot or log.
    with kafka:
        described = topic_command(kafka, "--describe").stdout
    assert "PartitionCount: 2" in described
    assert "retention.ms=1000" in described
    assert ("max.message.bytes=12345" in described) == with_snapshots
    state = quorum_state(kafka)
    assert state["leaderEpoch"] == epoch_before + 2
    assert state["data_version"] == (1 if quorum == "standalone" else 0)


def test_apache_kafka_reads_our_log_and_snapshots(tmp_path: Path) -> None:
    async def scenario() -> None:
        limits = {"metadata.log.max.record.bytes.between.snapshots": "4000"}
        async with running(MetadataNode(tmp_path, limits, take_snapshots=True)) as node:
            await node.committed(
                node.append(
                    (BeginTransactionRecord(name="first"), 0), topic("a"), (EndTransactionRecord(), 0)
                )
            )
            for number in range(100):
                await node.create(f"topic-{number}", f"other-{number}")
            await node.committed(node.append(remove_topic("a")))
        async with running(MetadataNode(tmp_path, limits)) as again:
            await again.create("last")

    asyncio.run(scenario())
    directory = tmp_path / "__cluster_metadata-0"
    segments = sorted(directory.glob("*.log"))
    dumped = dump(*segments, *sorted(directory.glob("*index")))
    assert not re.search("(?i)mismatch|corrupt", dumped)
    records = metadata_records(dumped)
    names = [record.data["name"] for record in records if record.type == "TOPIC_RECORD"]
    assert names == ["a", *(f"{kind}-{n}" for n in range(100) for kind in ("topic", "other")), "last"]
    assert control_records(dumped) == ["LeaderChange", "LeaderChange"]

    newest = sorted(directory.glob("*.checkpoint"))[-1]
    snapshot = dump(newest)
    assert control_records(snapshot) == ["SnapshotHeader", "SnapshotFooter"]
    held = {record.data["name"] for record in metadata_records(snapshot)}
    assert len(held) > 100
    assert held <= set(names)


@pytest.mark.parametrize("quorum", ["standalone", "static"])
def test_both_format_directories_alike(tmp_path: Path, quorum: Quorum) -> None:
    theirs = formatted_by_kafka(tmp_path / "theirs", quorum)
    ours = formatted_by_us(tmp_path / "ours", quorum)
    assert names_in(theirs.directory) == names_in(ours.directory)
    assert checkpoints_in(ours.directory) == checkpoints_in(theirs.directory)


@pytest.mark.parametrize("quorum", ["standalone", "static"])
def test_apache_kafka_starts_on_a_directory_that_we_formatted(tmp_path: Path, quorum: Quorum) -> None:
    with formatted_by_us(tmp_path, quorum) as kafka:
        described = run_tool(
            "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", kafka.bootstrap, "describe"
        )
        finalized = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)\s", described.stdout))
    assert finalized.pop("metadata.version") == "4.3-IV0"
    assert finalized.pop("kraft.version") == ("1" if quorum == "standalone" else "0")
    expected = initial_features(None, (), dynamic_quorum=quorum == "standalone")
    del expected["metadata.version"]
    assert finalized == {name: str(level) for name, level in expected.items()}


@pytest.mark.parametrize("release", ["3.9-IV0", "4.2-IV0"])
def test_releases_have_the_same_levels(release: str) -> None:
    result = run_tool("kafka.tools.StorageTool", "version-mapping", "--release-version", release)
    theirs = {name: int(level) for name, level in re.findall(r"^([\w.]+)=(\d+)", result.stdout, re.MULTILINE)}
    del theirs["kraft.version"]
    ours = initial_features(release, (), dynamic_quorum=False)
    assert ours == theirs
    assert METADATA_VERSION_NAMES[ours["metadata.version"]] == release


def formatted_by_kafka(directory: Path, quorum: Quorum) -> ApacheKafka:
    kafka = ApacheKafka(directory, quorum=quorum, data_dirs=[directory / "a", directory / "b"])
    kafka.format_if_new()
    return kafka


def formatted_by_us(directory: Path, quorum: Quorum) -> ApacheKafka:
    kafka = ApacheKafka(directory, quorum=quorum, data_dirs=[directory / "a", directory / "b"])
    directory.mkdir(exist_ok=True)
    config = BrokerConfig.from_properties(kafka.server_properties())
    format_storage(
        config, cluster_id=kafka.cluster_id, quorum=QuorumOptions(standalone=quorum == "standalone")
    )
    return kafka


def names_in(directory: Path) -> list[str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(directory)) for path in files if path.name != "server.properties")


def checkpoints_in(directory: Path) -> tuple[list[int], list[str]]:
    """The modes and contents of the checkpoints, without times, ports and random ids."""
    paths = sorted(directory.rglob("*.checkpoint"))
    volatile = (
        r'CreateTime: \d+|crc: \d+|"lastContainedLogTimestamp":[1-9]\d*|"port":\d+|"voterDirectoryId":"[^"]*"'
    )
    lines = [line for line in dump(*paths).splitlines() if not line.startswith("Dumping")]
    return [path.stat().st_mode for path in paths], [re.sub(volatile, "_", line) for line in lines]
