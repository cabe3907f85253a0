"""One story of reassignments and elections, played to Apache Kafka's controller and to ours.

Both are asked the same and must answer with the same codes and write the same records.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.ids import uuid_to_text
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ruslo.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from ruslo.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ruslo.protocol.messages.elect_leaders_response import ElectLeadersResponse
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from tests.support.brokers.kafka_cluster import ApacheKafkaCluster
from tests.support.checks.cli_checks import Cli
from tests.support.machines.controller_bench import MachineBench, numbered_uuid

TOPIC = "story"
PREFERRED, UNCLEAN = 0, 1

Shown = dict[str, object]


class World(Protocol):
    def create(self, assignments: Sequence[list[int]]) -> None: ...

    def ask(self, request: Message, response_type: type[Any]) -> Any: ...

    def settle(self) -> None:
        """Until new replicas have caught up and all moves are done."""

    def pause(self, broker_id: int) -> None:
        """It fetches nothing from now on, but is not noticed as missing yet."""

    def resume(self, broker_id: int) -> None: ...

    def records(self) -> list[Shown]:
        """All changes of the topic's partitions, directories as the brokers they belong to."""


def play(world: World, a: int, b: int, c: int) -> list[object]:
    """What was answered; ``c`` is a broker that does not lead the quorum."""
    told: list[object] = []

    def reassign(targets: Mapping[int, list[int] | None], *, fixed: bool = False) -> None:
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=TOPIC,
                    partitions=[
                        ReassignablePartition(partition_index=index, replicas=replicas)
                        for index, replicas in targets.items()
                    ],
                )
            ],
            allow_replication_factor_change=not fixed,
        )
        answer = world.ask(request, AlterPartitionReassignmentsResponse)
        told.append((answer.error_code, [each.error_code for each in answer.responses[0].partitions]))

    def elect(kind: int, partitions: list[int] | None) -> None:
        named = None if partitions is None else [TopicPartitions(topic=TOPIC, partitions=partitions)]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=named)
        answer = world.ask(request, ElectLeadersResponse)
        told.append(
            [
                (each.partition_id, each.error_code)
                for topic in answer.replica_election_results
                if topic.topic == TOPIC
                for each in topic.partition_result
            ]
        )

    def listed() -> None:
        answer = world.ask(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
        told.append(
            sorted(
                (each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
                for topic in answer.topics
                if topic.name == TOPIC
                for each in topic.partitions
            )
        )

    world.create([[a, b], [b, c], [a, b], [a, b], [a, b]])
    reassign({0: [c, b]})
    world.settle()
    reassign({1: [b, c, a]})
    world.settle()
    reassign({1: [b, a]})
    reassign({2: [b, a]})
    elect(PREFERRED, None)
    elect(PREFERRED, [0, 2, 9])
    elect(UNCLEAN, [2])
    reassign({0: None, 1: [], 2: [a, a], 3: [a, 77], 9: [a]})
    reassign({3: [a, b, c], 4: [b, a]}, fixed=True)
    world.pause(c)
    reassign({3: [a, c]})
    reassign({3: [b, c]})
    elect(PREFERRED, [3])
    reassign({3: [b]}, fixed=True)
    reassign({4: [c]})
    listed()
    reassign({3: None})
    reassign({3: None})
    reassign({4: None})
    listed()
    elect(PREFERRED, [0, 3])
    world.resume(c)
    return told


class OurWorld:
    def __init__(self) -> None:
        self.bench = MachineBench.started(3)

    def create(self, assignments: Sequence[list[int]]) -> None:
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in enumerate(assignments)
            ],
        )
        self.bench.submit(CreateTopicsRequest(topics=[topic]))

    def ask(self, request: Message, response_type: type[Any]) -> Any:
        return self.bench.respond(request, response_type)

    def settle(self) -> None:
        image, brokers = self.bench.image.topics.by_name[TOPIC], self.bench.image.cluster.brokers
        for index, partition in enumerate(image.partitions):
            if not partition.adding:
                continue
            members = [
                BrokerState(broker_id=each, broker_epoch=brokers[each].epoch)
                for each in (*partition.isr, *partition.adding)
            ]
            proposal = PartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                new_isr_with_epochs=members,
            )
            self.bench.submit(
                AlterPartitionRequest(
                    broker_id=partition.leader,
                    broker_epoch=brokers[partition.leader].epoch,
                    topics=[TopicData(topic_id=image.id, partitions=[proposal])],
                )
            )

    def pause(self, broker_id: int) -> None:
        pass

    def resume(self, broker_id: int) -> None:
        pass

    def records(self) -> list[Shown]:
        owners = {numbered_uuid(broker * 100): broker for broker in (1, 2, 3)}
        return [
            _shown(
                {name: getattr(record, name) for name in record.__slots__},
                owners,
            )
            for record, _ in self.bench.log
            if isinstance(record, PartitionChangeRecord)
        ]


class KafkaWorld:
    def __init__(self, cluster: ApacheKafkaCluster, asked: int) -> None:
        """``asked``: a broker that is never paused; it passes on what is the controller's."""
        self._cluster = cluster
        self._bootstrap = cluster.nodes[asked].bootstrap
        self._topic_id = ""

    def create(self, assignments: Sequence[list[int]]) -> None:
        async def run() -> None:
            async with Admin(self._bootstrap) as admin:
                await admin.topics.create([NewTopic(TOPIC, assignments=dict(enumerate(assignments)))])
                self._topic_id = uuid_to_text((await admin.topics.describe(TOPIC)).topic_id)

        asyncio.run(run())

    def ask(self, request: Message, response_type: type[Any]) -> Any:
        async def run() -> Any:
            async with Admin(self._bootstrap) as admin:
                return await admin.cluster.any_broker(request, response_type)

        return asyncio.run(run())

    def settle(self) -> None:
        deadline = time.monotonic() + 60
        request = ListPartitionReassignmentsRequest(topics=None)
        while self.ask(request, ListPartitionReassignmentsResponse).topics:
            assert time.monotonic() < deadline, "the move does not end"
            time.sleep(0.1)

    def pause(self, broker_id: int) -> None:
        process = self._cluster.nodes[broker_id].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        process = self._cluster.nodes[broker_id].process
        assert process is not None
        process.send_signal(signal.SIGCONT)

    def records(self) -> list[Shown]:
        owners = {
            voter.rpartition(":")[2]: int(voter.partition("@")[0])
            for voter in self._cluster.voters.split(",")
        }
        log = self._cluster.nodes[1].data_dirs[0] / "__cluster_metadata-0" / "00000000000000000000.log"
        rows = Cli(self._bootstrap).lines("log", "dump", str(log), "--records")
        return [
            _shown(row["fields"], owners)
            for row in rows
            if row.get("type") == "PartitionChangeRecord" and row["fields"]["topic_id"] == self._topic_id
        ]


def _shown(fields: Mapping[str, Any], owners: Mapping[Any, int]) -> Shown:
    """What a change says, beyond the defaults. A leader lists its in-sync replicas in any order."""
    default = PartitionChangeRecord()
    shown = {
        name: value
        for name, value in fields.items()
        if name != "topic_id" and (name == "partition_id" or value != getattr(default, name))
    }
    if shown.get("isr") is not None:
        shown["isr"] = sorted(shown["isr"])
    if shown.get("directories") is not None:
        shown["directories"] = [owners[directory] for directory in shown["directories"]]
    return shown
