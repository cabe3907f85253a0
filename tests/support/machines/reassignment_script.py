"""A script of reassignments and elections for Apache Kafka's controller and ours.

Both must return the same codes and write the same records.
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

TOPIC = "reassigned"
PREFERRED, UNCLEAN = 0, 1

ChangedFields = dict[str, object]


class ControllerPort(Protocol):
    def create(self, assignments: Sequence[list[int]]) -> None: ...

    def call(self, request: Message, response_type: type[Any]) -> Any: ...

    def wait_for_reassignments(self) -> None:
        """Wait until all new replicas are in sync and no reassignment is in progress."""

    def pause(self, broker_id: int) -> None:
        """Stop the broker from fetching, without getting it fenced."""

    def resume(self, broker_id: int) -> None: ...

    def records(self) -> list[ChangedFields]:
        """All change records of the topic's partitions, with broker ids in place of directory ids."""


def run_script(controller: ControllerPort, a: int, b: int, c: int) -> list[object]:
    """Return the results of all requests; ``c`` is a broker that is not the active controller."""
    results: list[object] = []

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
        response = controller.call(request, AlterPartitionReassignmentsResponse)
        results.append((response.error_code, [each.error_code for each in response.responses[0].partitions]))

    def elect(kind: int, partitions: list[int] | None) -> None:
        named = None if partitions is None else [TopicPartitions(topic=TOPIC, partitions=partitions)]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=named)
        response = controller.call(request, ElectLeadersResponse)
        results.append(
            [
                (each.partition_id, each.error_code)
                for topic in response.replica_election_results
                if topic.topic == TOPIC
                for each in topic.partition_result
            ]
        )

    def list_reassignments() -> None:
        request = ListPartitionReassignmentsRequest(topics=None)
        response = controller.call(request, ListPartitionReassignmentsResponse)
        results.append(
            sorted(
                (each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
                for topic in response.topics
                if topic.name == TOPIC
                for each in topic.partitions
            )
        )

    controller.create([[a, b], [b, c], [a, b], [a, b], [a, b]])
    reassign({0: [c, b]})
    controller.wait_for_reassignments()
    reassign({1: [b, c, a]})
    controller.wait_for_reassignments()
    reassign({1: [b, a]})
    reassign({2: [b, a]})
    elect(PREFERRED, None)
    elect(PREFERRED, [0, 2, 9])
    elect(UNCLEAN, [2])
    reassign({0: None, 1: [], 2: [a, a], 3: [a, 77], 9: [a]})
    reassign({3: [a, b, c], 4: [b, a]}, fixed=True)
    controller.pause(c)
    reassign({3: [a, c]})
    reassign({3: [b, c]})
    elect(PREFERRED, [3])
    reassign({3: [b]}, fixed=True)
    reassign({4: [c]})
    list_reassignments()
    reassign({3: None})
    reassign({3: None})
    reassign({4: None})
    list_reassignments()
    elect(PREFERRED, [0, 3])
    controller.resume(c)
    return results


class RusloController:
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

    def call(self, request: Message, response_type: type[Any]) -> Any:
        return self.bench.respond(request, response_type)

    def wait_for_reassignments(self) -> None:
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

    def records(self) -> list[ChangedFields]:
        owners = {numbered_uuid(broker * 100): broker for broker in (1, 2, 3)}
        return [
            _changed_fields({name: getattr(record, name) for name in record.__slots__}, owners)
            for record, _ in self.bench.log
            if isinstance(record, PartitionChangeRecord)
        ]


class KafkaController:
    def __init__(self, cluster: ApacheKafkaCluster, broker_id: int) -> None:
        """``broker_id``: a broker that is never paused; it forwards requests to the active controller."""
        self._cluster = cluster
        self._bootstrap = cluster.nodes[broker_id].bootstrap
        self._topic_id = ""

    def create(self, assignments: Sequence[list[int]]) -> None:
        async def run() -> None:
            async with Admin(self._bootstrap) as admin:
                await admin.topics.create([NewTopic(TOPIC, assignments=dict(enumerate(assignments)))])
                self._topic_id = uuid_to_text((await admin.topics.describe(TOPIC)).topic_id)

        asyncio.run(run())

    def call(self, request: Message, response_type: type[Any]) -> Any:
        async def run() -> Any:
            async with Admin(self._bootstrap) as admin:
                return await admin.cluster.any_broker(request, response_type)

        return asyncio.run(run())

    def wait_for_reassignments(self) -> None:
        deadline = time.monotonic() + 60
        request = ListPartitionReassignmentsRequest(topics=None)
        while self.call(request, ListPartitionReassignmentsResponse).topics:
            assert time.monotonic() < deadline, "the reassignment does not complete"
            time.sleep(0.1)

    def pause(self, broker_id: int) -> None:
        process = self._cluster.nodes[broker_id].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        process = self._cluster.nodes[broker_id].process
        assert process is not None
        process.send_signal(signal.SIGCONT)

    def records(self) -> list[ChangedFields]:
        owners = {
            voter.rpartition(":")[2]: int(voter.partition("@")[0])
            for voter in self._cluster.voters.split(",")
        }
        log = self._cluster.nodes[1].data_dirs[0] / "__cluster_metadata-0" / "00000000000000000000.log"
        rows = Cli(self._bootstrap).lines("log", "dump", str(log), "--records")
        return [
            _changed_fields(row["fields"], owners)
            for row in rows
            if row.get("type") == "PartitionChangeRecord" and row["fields"]["topic_id"] == self._topic_id
        ]


def _changed_fields(fields: Mapping[str, Any], owners: Mapping[Any, int]) -> ChangedFields:
    """The fields that differ from the defaults. The ISR is sorted, because leaders list it in any order."""
    default = PartitionChangeRecord()
    changed = {
        name: value
        for name, value in fields.items()
        if name != "topic_id" and (name == "partition_id" or value != getattr(default, name))
    }
    if changed.get("isr") is not None:
        changed["isr"] = sorted(changed["isr"])
    if changed.get("directories") is not None:
        changed["directories"] = [owners[directory] for directory in changed["directories"]]
    return changed
