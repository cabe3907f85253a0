"""Log directories: which directory holds each replica, and what happens when a directory fails."""

from __future__ import annotations

from ruslo.machines.controller.events import BrokerGone
from ruslo.machines.controller.records import DIRECTORY_ASSIGNMENT_SUPPORTED
from ruslo.machines.controller.topic_image import PartitionImage
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import LOST_DIR, MIGRATING_DIR, UNASSIGNED_DIR, Uuid
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ruslo.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from tests.support.machines.controller_bench import MachineBench, numbered_uuid, registration
from tests.unit.machines.controller.requests import alter_topic, assign_topic, create_topic

FIRST, SECOND = numbered_uuid(100), numbered_uuid(101)
"""The log directories of broker 1. Brokers 2 and 3 have one directory each: 200 and 300."""


def three_brokers() -> MachineBench:
    """Broker 1 has two log directories and leads both partitions of topic t."""
    bench = MachineBench.started(0)
    bench.join(1, dirs=2)
    bench.join(2)
    bench.join(3)
    assign_topic(bench, [1, 2, 3], [1, 2, 3])
    return bench


def partition(bench: MachineBench, index: int) -> PartitionImage:
    return bench.image.topics.by_name["t"].partitions[index]


def assign(bench: MachineBench, index: int, directory: Uuid, broker_id: int = 1) -> ErrorCode:
    topic_id = bench.image.topics.by_name["t"].id
    topics = [TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=index)])]
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=bench.image.cluster.brokers[broker_id].epoch,
        directories=[DirectoryData(id=directory, topics=topics)],
    )
    response = bench.respond(request, AssignReplicasToDirsResponse)
    return ErrorCode(response.directories[0].topics[0].partitions[0].error_code)


def heartbeat(bench: MachineBench, *lost: Uuid) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=bench.image.cluster.brokers[1].epoch,
        current_metadata_offset=len(bench.log) - 1,
        offline_log_dirs=list(lost),
        cordoned_log_dirs=[],
    )


def test_broker_reports_the_directories_of_its_replicas() -> None:
    bench = three_brokers()
    assert partition(bench, 0).directories == (UNASSIGNED_DIR, numbered_uuid(200), numbered_uuid(300))
    assert assign(bench, 0, SECOND) is ErrorCode.NONE
    assert partition(bench, 0).directories == (SECOND, numbered_uuid(200), numbered_uuid(300))
    assert partition(bench, 0).leader == 1
    assert assign(bench, 7, SECOND) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    before = len(bench.log)
    assert assign(bench, 0, SECOND) is ErrorCode.NONE
    assert len(bench.log) == before, "an unchanged directory writes no record"


def test_failed_directory_moves_only_its_own_leaders() -> None:
    bench = three_brokers()
    assign(bench, 0, FIRST)
    assign(bench, 1, SECOND)
    records, response = bench.submit(heartbeat(bench, SECOND))
    # The order of Apache Kafka: the partitions first, then the registration without the directory.
    assert [(type(record), version) for record, version in records] == [
        (PartitionChangeRecord, 2),
        (BrokerRegistrationChangeRecord, 2),
    ]
    assert isinstance(response, BrokerHeartbeatResponse)
    assert not response.is_fenced
    assert (partition(bench, 0).leader, partition(bench, 0).isr) == (1, (1, 2, 3))
    assert (partition(bench, 1).leader, partition(bench, 1).isr) == (2, (2, 3))
    assert bench.image.cluster.brokers[1].log_dirs == (FIRST,)
    assert bench.submit(heartbeat(bench, SECOND))[0] == [], "a directory fails once"


def test_replica_in_an_unreported_directory_is_reported_as_lost() -> None:
    bench = three_brokers()
    bench.submit(heartbeat(bench, SECOND))
    assert partition(bench, 1).leader == 1, "the directory of this replica is not reported yet"
    assert assign(bench, 1, LOST_DIR) is ErrorCode.NONE
    assert partition(bench, 1).directories[0] == LOST_DIR
    assert (partition(bench, 1).leader, partition(bench, 1).isr) == (2, (2, 3))


def test_fenced_broker_that_loses_a_directory_stays_fenced_for_one_heartbeat() -> None:
    bench = three_brokers()
    assign(bench, 1, SECOND)
    bench.respond(registration(1, dirs=2), BrokerRegistrationResponse)
    epoch = bench.image.cluster.brokers[1].epoch
    bench.heartbeat(1, want_fence=True)
    assert bench.image.cluster.brokers[1].epoch == epoch
    assert bench.respond(heartbeat(bench, SECOND), BrokerHeartbeatResponse).is_fenced
    assert not bench.respond(heartbeat(bench, SECOND), BrokerHeartbeatResponse).is_fenced
    assert bench.image.cluster.brokers[1].log_dirs == (FIRST,)


def test_recovered_replica_may_lead() -> None:
    bench = MachineBench.started(0)
    bench.join(1, dirs=2)
    create_topic(bench, 1, 1)
    bench.submit(heartbeat(bench, SECOND))
    assign(bench, 0, LOST_DIR)
    assert partition(bench, 0).leader == -1
    # The restarted broker has the directory again, but reports its replicas only once it is unfenced.
    bench.heartbeat(1, want_fence=True)
    bench.wait(10_000)
    bench.join(1, dirs=2, incarnation="b")
    assert partition(bench, 0).leader == -1
    assign(bench, 0, SECOND)
    assert (partition(bench, 0).leader, partition(bench, 0).isr) == (1, (1,))


def test_replica_in_a_removed_directory_leaves_the_elr() -> None:
    """A clean shutdown does not cover a directory that is removed from log.dirs before the next start."""
    bench = three_brokers()
    alter_topic(bench, "min.insync.replicas", "3")
    assign(bench, 0, SECOND)
    assign(bench, 1, FIRST)
    epoch = bench.image.cluster.brokers[1].epoch
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down
    for broker_id in (2, 3, 1):
        bench.heartbeat(broker_id, want_shut_down=broker_id == 1)
    assert [partition(bench, index).elr for index in (0, 1)] == [(1,), (1,)]
    bench.join(1, dirs=1, incarnation="b", previous=epoch)
    # The broker created an empty log for one partition and found the log of the other one.
    assert assign(bench, 0, FIRST) is ErrorCode.NONE
    assert [partition(bench, index).elr for index in (0, 1)] == [(), (1,)]
    for broker_id in (2, 3):
        bench.heartbeat(broker_id, want_fence=True)
    assert [partition(bench, index).leader for index in (0, 1)] == [-1, 1], "its log of partition 0 is empty"
    assert 1 not in partition(bench, 0).elr
    bench.heartbeat(3)
    assert partition(bench, 0).leader == 3


def all_crashed(min_isr: str = "2") -> MachineBench:
    """All brokers crashed and registered again. Broker 3 led last; broker 2 was in sync with it."""
    bench = three_brokers()
    alter_topic(bench, "min.insync.replicas", min_isr)
    for broker_id in (1, 2, 3):
        bench.handle(BrokerGone(broker_id, bench.image.cluster.brokers[broker_id].epoch))
        bench.respond(registration(broker_id, incarnation="b"), BrokerRegistrationResponse)
    assert (partition(bench, 0).leader, partition(bench, 0).isr, partition(bench, 0).elr) == (-1, (), ())
    return bench


def test_last_leader_that_lost_its_data_is_not_elected() -> None:
    bench = all_crashed()
    assert partition(bench, 0).last_known_elr == (3, 2)
    assert assign(bench, 0, LOST_DIR, 3) is ErrorCode.NONE
    bench.heartbeat(3)
    bench.heartbeat(1)
    assert partition(bench, 0).leader == -1, "broker 2 has all committed records and is not back yet"
    assert partition(bench, 1).leader == 3, "its log of partition 1 is intact"
    bench.heartbeat(2)
    assert (partition(bench, 0).leader, partition(bench, 0).isr) == (2, (2,))
    assign(bench, 0, numbered_uuid(300), 3)
    assert (partition(bench, 0).leader, partition(bench, 0).isr) == (2, (2,))
    assert 3 not in (*partition(bench, 0).elr, *partition(bench, 0).last_known_elr)


def test_partition_waits_for_an_operator_if_no_replica_has_all_records() -> None:
    bench = all_crashed(min_isr="1")
    assert partition(bench, 0).last_known_elr == (3,)
    assign(bench, 0, LOST_DIR, 3)
    for broker_id in (1, 2, 3):
        bench.heartbeat(broker_id)
    assert partition(bench, 0).leader == -1
    bench.submit(ElectLeadersRequest(election_type=1, topic_partitions=None, timeout_ms=0))
    assert partition(bench, 0).leader == 1


def test_operator_may_elect_a_replica_that_lost_its_data() -> None:
    bench = all_crashed()
    assign(bench, 0, LOST_DIR, 3)
    bench.heartbeat(3)
    bench.submit(ElectLeadersRequest(election_type=1, topic_partitions=None, timeout_ms=0))
    assert partition(bench, 0).leader == 3


def test_replica_may_lead_again_if_no_other_has_more() -> None:
    """All replicas lost the records that only their page caches held."""
    bench = all_crashed()
    for broker_id in (2, 3):
        assign(bench, 0, LOST_DIR, broker_id)
        bench.heartbeat(broker_id)
    assert partition(bench, 0).leader == -1
    assign(bench, 0, numbered_uuid(200), 2)
    assert (partition(bench, 0).leader, partition(bench, 0).isr) == (2, (2,))


def test_replica_that_lost_its_data_leaves_the_elr() -> None:
    bench = three_brokers()
    alter_topic(bench, "min.insync.replicas", "3")
    bench.heartbeat(3, want_fence=True)
    assert partition(bench, 0).elr == (3,)
    assign(bench, 0, LOST_DIR, 3)
    assert (partition(bench, 0).elr, partition(bench, 0).last_known_elr) == ((), ())


def test_directory_assignment_may_complete_a_reassignment() -> None:
    """Removed replicas lose their directories too; otherwise the partition would be unusable."""
    bench = three_brokers()
    bench.join(4, dirs=2)
    alter_topic(bench, "unclean.leader.election.enable", "true")
    for broker_id in (1, 2, 3):
        bench.handle(BrokerGone(broker_id, bench.image.cluster.brokers[broker_id].epoch))
    moves = [ReassignablePartition(partition_index=0, replicas=[4])]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=moves)])
    bench.submit(request)
    bench.submit(ElectLeadersRequest(election_type=1, topic_partitions=None))
    assert (partition(bench, 0).leader, partition(bench, 0).replicas) == (4, (4, 1, 2, 3))
    assert assign(bench, 0, numbered_uuid(401), 4) is ErrorCode.NONE
    assert (partition(bench, 0).replicas, partition(bench, 0).directories) == ((4,), (numbered_uuid(401),))
    bench.handle(BrokerGone(4, bench.image.cluster.brokers[4].epoch))
    assert partition(bench, 0).leader == -1


def test_old_metadata_version_records_no_directories() -> None:
    bench = MachineBench.started(0, features={"metadata.version": DIRECTORY_ASSIGNMENT_SUPPORTED - 1})
    bench.join(1)
    create_topic(bench, 1, 1)
    assert assign(bench, 0, FIRST) is ErrorCode.NONE
    assert partition(bench, 0).directories == (MIGRATING_DIR,)
