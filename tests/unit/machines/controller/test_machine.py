"""Transcripts of the controller machine: ``transcripts/*.txt`` hold the events and, below each ``----``, the
records, the responses and the resulting partitions. RUSLO_REWRITE=1 rewrites the results; review the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.machines.controller.config_image import BROKER, TOPIC
from ruslo.machines.controller.events import BrokerGone, RequestOrigin
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.machine import Requested
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import UNASSIGNED_DIR
from ruslo.protocol.message import Message, Struct
from ruslo.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ruslo.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ruslo.protocol.messages.create_topics_request import (
    CreateTopicsRequest,
)
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.machines.controller_bench import (
    FEATURES,
    MachineBench,
    broker_config,
    new_machine,
    registration,
)
from tests.unit.machines.controller.requests import assigned, create_topic, topic

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    written = path.read_text()
    played = play(written)
    if os.environ.get("RUSLO_REWRITE"):
        path.write_text(played)
    else:
        assert played == written


def play(transcript: str) -> str:
    runner = ControllerTranscript()
    out: list[str] = []
    for block in transcript.split("\n\n"):
        head, _, _ = block.partition("\n----")
        lines = [line for line in head.splitlines() if line]
        shown = [line for command in lines if not command.startswith("#") for line in runner.run(command)]
        out.append("\n".join([*lines, "----", *shown]) if shown else "\n".join(lines))
    return "\n\n".join(out) + "\n"


class ControllerTranscript:
    def __init__(self) -> None:
        self.bench = MachineBench(new_machine(broker_config()))

    def run(self, command: str) -> list[str]:
        verb, *arguments = command.split()
        named = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        plain = [argument for argument in arguments if "=" not in argument]
        try:
            records, response = self._act(verb, plain, named)
        except KafkaError as error:
            return [f"error: {error.code.name}"]
        shown = [self._show(record, version) for record, version in records]
        if response is not None:
            shown.append(f"response: {fields(response)}")
        if verb == "partitions":
            shown += self._partitions()
        return shown

    def _act(
        self, verb: str, plain: list[str], named: dict[str, str]
    ) -> tuple[list[VersionedRecord], Message | None]:
        bench = self.bench
        if verb == "cluster":
            features = FEATURES | {name: int(level) for name, level in named.items() if name in FEATURES}
            settings = {name: value for name, value in named.items() if name not in FEATURES}
            bench.machine = new_machine(broker_config(settings), features)
            return [], None
        if verb == "activate":
            return bench.activate(), None
        if verb == "wait":
            return bench.wait(int(plain[0])), None
        if verb == "idle":
            return self._idle(int(plain[0])), None
        if verb == "partitions":
            return [], None
        if verb == "gone":
            broker_id = int(plain[0])
            epoch = int(named.get("epoch", bench.image.cluster.brokers[broker_id].epoch))
            return bench.handle(BrokerGone(broker_id, epoch)), None
        return bench.submit(self._request(verb, plain, named))

    def _idle(self, milliseconds: int) -> list[VersionedRecord]:
        """Wait while unfenced brokers keep sending heartbeats."""
        records: list[VersionedRecord] = []
        end_ms = self.bench.now_ms + milliseconds
        while self.bench.now_ms < end_ms:
            records += self.bench.wait(min(2000, end_ms - self.bench.now_ms))
            for broker in list(self.bench.image.cluster.brokers.values()):
                if not broker.fenced:
                    self.bench.heartbeat(broker.id)
        return records

    def _request(self, verb: str, plain: list[str], named: dict[str, str]) -> Message:
        brokers, topics = self.bench.image.cluster.brokers, self.bench.image.topics
        match verb, plain:
            case "register", [broker]:
                return registration(
                    int(broker),
                    incarnation=named.get("incarnation", "a"),
                    rack=named.get("rack"),
                    previous=int(named.get("previous", -1)),
                    dirs=int(named.get("dirs", 1)),
                )
            case "heartbeat", [broker, *flags]:
                return BrokerHeartbeatRequest(
                    broker_id=int(broker),
                    broker_epoch=int(named.get("epoch", brokers[int(broker)].epoch)),
                    current_metadata_offset=int(named.get("offset", len(self.bench.log) - 1)),
                    want_fence="want_fence" in flags,
                    want_shut_down="want_shut_down" in flags,
                    cordoned_log_dirs=[],
                )
            case "create", [name]:
                settings = {
                    key: value for key, value in named.items() if key not in ("partitions", "replicas")
                }
                created = topic(
                    name, int(named.get("partitions", -1)), int(named.get("replicas", -1)), configs=settings
                )
                return CreateTopicsRequest(topics=[created])
            case "assign", [name, *replicas]:
                assignments = dict(enumerate(map(ids, replicas)))
                return CreateTopicsRequest(topics=[assigned(assignments, name)])
            case "delete", [name]:
                return DeleteTopicsRequest(topic_names=[name])
            case "add-partitions", [name, count]:
                expanded = CreatePartitionsTopic(name=name, count=int(count), assignments=None)
                return CreatePartitionsRequest(topics=[expanded])
            case "alter", [resource, *removed]:
                kind, _, name = resource.partition(":")
                configs = [AlterableConfig(name=key, config_operation=0, value=named[key]) for key in named]
                configs += [AlterableConfig(name=key, config_operation=1, value=None) for key in removed]
                resource_type = {"topic": TOPIC, "broker": BROKER}[kind]
                return IncrementalAlterConfigsRequest(
                    resources=[
                        AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
                    ]
                )
            case "isr", [name, isr]:
                topic_name, index = name.rsplit("-", 1)
                partition = topics.by_name[topic_name].partitions[int(index)]
                members = [BrokerState(broker_id=each, broker_epoch=brokers[each].epoch) for each in ids(isr)]
                proposal = PartitionData(
                    partition_index=int(index),
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr_with_epochs=members,
                    leader_recovery_state=int(named.get("recovering", 0)),
                )
                return AlterPartitionRequest(
                    broker_id=partition.leader,
                    broker_epoch=brokers[partition.leader].epoch,
                    topics=[TopicData(topic_id=topics.by_name[topic_name].id, partitions=[proposal])],
                )
            case "reassign", [name, target]:
                topic_name, index = name.rsplit("-", 1)
                moved = ReassignablePartition(
                    partition_index=int(index), replicas=None if target == "cancel" else ids(target)
                )
                return AlterPartitionReassignmentsRequest(
                    topics=[ReassignableTopic(name=topic_name, partitions=[moved])],
                    allow_replication_factor_change="fixed" not in named,
                )
            case "moving", []:
                return ListPartitionReassignmentsRequest(topics=None)
            case "elect", [kind, *names]:
                pairs = [name.rsplit("-", 1) for name in names]
                return ElectLeadersRequest(
                    election_type={"preferred": 0, "unclean": 1}[kind],
                    topic_partitions=[
                        TopicPartitions(topic=topic_name, partitions=[int(index)])
                        for topic_name, index in pairs
                    ]
                    or None,
                )
            case "producer-ids", [broker]:
                return AllocateProducerIdsRequest(
                    broker_id=int(broker), broker_epoch=brokers[int(broker)].epoch
                )
            case "feature", [name, level, *how]:
                upgrade_type = {"": 1, "safe": 2, "unsafe": 3}[how[0] if how else ""]
                update = FeatureUpdateKey(
                    feature=name, max_version_level=int(level), upgrade_type=upgrade_type
                )
                return UpdateFeaturesRequest(feature_updates=[update])
        raise ValueError(f"Unknown command {verb} {plain}.")

    def _show(self, record: Message, version: int) -> str:
        return f"{type(record).__name__.removesuffix('Record')} v{version} {fields(record)}".rstrip()

    def _partitions(self) -> list[str]:
        shown = []
        for image, index, each in self.bench.image.topics.partitions():
            state = " recovering" if each.recovery_state else ""
            if each.adding or each.removing:
                state += f" adding {text(each.adding)} removing {text(each.removing)}"
            shown.append(
                f"{image.name}-{index}: replicas {text(each.replicas)} "
                f"leader {each.leader}@{each.leader_epoch} isr {text(each.isr)} elr {text(each.elr)} "
                f"last {text(each.last_known_elr)} epoch {each.partition_epoch}{state}"
            )
        return shown


def ids(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def fields(struct: Struct) -> str:
    """The fields that differ from the schema's defaults."""
    default = type(struct)()
    shown = []
    for name in struct.__slots__:
        value = getattr(struct, name)
        if value != getattr(default, name) and name not in ("features", "end_points"):
            shown.append(f"{name}={text(value)}")
    return " ".join(shown) or "-"


def text(value: object) -> str:
    if isinstance(value, Struct):
        return f"({fields(value)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, bytes):
        if value == UNASSIGNED_DIR:
            return "unassigned"
        return f"#{int.from_bytes(value[1:], 'big')}" if value[0] == 0xAA else value[:1].decode()
    return str(int(value)) if isinstance(value, bool) else str(value)


def test_unsupported_request_is_rejected() -> None:
    bench = MachineBench.started()
    with pytest.raises(KafkaError, match="does not serve ApiVersionsRequest") as caught:
        bench.submit(ApiVersionsRequest())
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_inactive_machine_responds_not_controller() -> None:
    bench = MachineBench(new_machine(broker_config()))
    assert bench.code(registration(1)) is ErrorCode.NOT_CONTROLLER
    bench.activate()
    bench.join(1)
    bench.machine.deactivate()
    assert bench.machine.deadline_ms() is None
    outcome = bench.machine.handle(
        Requested("later", registration(1), RequestOrigin(len(bench.log))), bench.now
    )
    (reply,) = outcome.replies
    assert isinstance(reply.message, KafkaError)
    assert reply.message.code is ErrorCode.NOT_CONTROLLER
    assert outcome.records == ()


def test_machine_continues_from_a_snapshot() -> None:
    bench = MachineBench.started(2)
    create_topic(bench, 2, 2)
    before = bench.image
    bench.machine.load(before.copy())
    assert bench.image is not before
    assert bench.image.topics.by_name == before.topics.by_name
    assert bench.activate() == []
    assert not bench.heartbeat(1).is_fenced
    assert [broker.fenced for broker in bench.image.cluster.brokers.values()] == [False, False]
