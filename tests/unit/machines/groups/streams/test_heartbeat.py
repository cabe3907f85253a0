"""StreamsGroupHeartbeat: joining, internal topics, the steps towards the target, and every error."""

from __future__ import annotations

from typing import Any

import pytest

from ruslo.machines.assignors.streams.builtin import BUILTIN_TASK_ASSIGNORS
from ruslo.machines.assignors.streams.model import (
    GroupSpec,
    TaskAssignment,
    TaskAssignorError,
    Topology,
)
from ruslo.machines.groups.consumer.ports import AssignorFailure
from ruslo.machines.groups.events import ComputeTasks, TargetComputed
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.streams.configured_topology import MAX_TASKS
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.settings import GroupSetting, StreamsSettings
from ruslo.machines.groups.streams.status import StatusCode
from ruslo.machines.groups.streams.target import MAX_INLINE_TASKS
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.streams_group_heartbeat_request import KeyValue, TaskIds, TaskOffset
from ruslo.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from tests.support.groups.group_bench import Topics
from tests.support.groups.streams_transcript import (
    NO_DELAY,
    READY,
    SOURCES,
    StreamsTranscript,
    StreamThread,
    counting_topology,
    stateless_topology,
)


def group_of(transcript: StreamsTranscript) -> StreamsGroup:
    group = transcript.bench.shard.state.groups[transcript.group]
    assert isinstance(group, StreamsGroup)
    return group


def codes(response: StreamsGroupHeartbeatResponse) -> list[StatusCode]:
    return [StatusCode(each.status_code) for each in response.status or ()]


def test_a_member_gets_tasks_when_the_internal_topics_exist() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a")
    a.join()
    a.heartbeat()
    transcript.create_missing_topics()
    a.heartbeat()
    a.report_tasks()
    assert transcript.text == (
        """\
> a joins
19 a
23 topology 0
17 epoch 2 validated -1
21 a nothing
20 epoch 2
22 a epoch 2 ← 0 stable
a at 2 has nothing
  MISSING_INTERNAL_TOPICS
> a sends a heartbeat
a at 2
  MISSING_INTERNAL_TOPICS
> topics are created: c(4) r(4)
> a sends a heartbeat
17 epoch 3 validated 0
21 a active 0:0,1,2,3 1:0,1,2,3
20 epoch 3
22 a epoch 3 ← 2 stable active 0:0@3,1@3,2@3,3@3 1:0@3,1@3,2@3,3@3
a at 3 has active 0:0,1,2,3 1:0,1,2,3
> a reports its tasks
a at 3
"""
    )


def test_a_second_member_waits_until_the_first_has_revoked() -> None:
    transcript = StreamsTranscript(topics=READY)
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b")
    a.join()
    transcript.lines.clear()
    b.join()
    a.heartbeat()
    b.heartbeat("sends a heartbeat while a still has the tasks")
    a.report_tasks("reports the revocation")
    b.heartbeat()
    assert transcript.text == (
        """\
> b joins
19 b
17 epoch 3 validated 0
21 a active 0:0,1 1:0,1
21 b active 0:2,3 1:2,3
20 epoch 3
22 b epoch 3 ← 0 unreleased
b at 3 has nothing
> a sends a heartbeat
22 a epoch 2 ← 2 unrevoked active 0:0@2,1@2 1:0@2,1@2 revoke active 0:2@2,3@2 1:2@2,3@2
a at 2 has active 0:0,1 1:0,1
> b sends a heartbeat while a still has the tasks
22 b epoch 3 ← 3 unreleased
b at 3
> a reports the revocation
22 a epoch 3 ← 2 stable active 0:0@2,1@2 1:0@2,1@2
a at 3
> b sends a heartbeat
22 b epoch 3 ← 3 stable active 0:2@3,3@3 1:2@3,3@3
b at 3 has active 0:2,3 1:2,3
"""
    )


def test_standby_tasks_are_on_other_processes() -> None:
    transcript = StreamsTranscript(
        NO_DELAY._replace(num_standby_replicas=GroupSetting(1, 0, 2)), topics=READY
    )
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b")
    a.join()
    b.join()
    for _ in range(4):
        a.report_tasks()
        b.report_tasks()
    stateful = {("1", index) for index in range(4)}
    for member, other in ((a, b), (b, a)):
        standby = {(each.subtopology_id, index) for each in member.standby for index in each.partitions}
        assert standby == stateful & other.tasks
    assert group_of(transcript).state_name == "Stable"


def test_a_changed_number_of_standby_replicas_rebalances() -> None:
    overrides: dict[str, str] = {}
    transcript = StreamsTranscript(topics=READY)
    settings = GroupSettings(streams=NO_DELAY, group_overrides=lambda _: overrides)
    transcript.bench.shard.change_settings(settings)
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b")
    a.join()
    b.join()
    for _ in range(2):
        a.report_tasks()
        b.report_tasks()
    epoch = group_of(transcript).epoch
    overrides["streams.num.standby.replicas"] = "1"
    a.report_tasks()
    assert group_of(transcript).epoch == epoch + 1
    assert a.standby
    # A limit of the broker that was lowered later applies.
    overrides["streams.num.standby.replicas"] = "99"
    assert settings.streams_config_of("g").num_standby_replicas == 2


def test_the_first_assignment_waits_for_more_members() -> None:
    delayed = NO_DELAY._replace(initial_rebalance_delay_ms=GroupSetting(3_000))
    transcript = StreamsTranscript(delayed, topics=READY)
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b")
    a.join()
    transcript.wait(1_000)
    b.join()
    transcript.wait(2_000)
    a.heartbeat()
    b.heartbeat()
    assert transcript.text == (
        """\
> a joins
19 a
23 topology 0
17 epoch 2 validated 0
22 a epoch 1 ← 0 stable
a at 1 has nothing
  ASSIGNMENT_DELAYED
> 1 s pass
> b joins
19 b
17 epoch 3 validated 0
22 b epoch 1 ← 0 stable
b at 1 has nothing
  ASSIGNMENT_DELAYED
> 2 s pass
21 a active 0:0,2 1:0,2
21 b active 0:1,3 1:1,3
20 epoch 3
> a sends a heartbeat
22 a epoch 3 ← 1 stable active 0:0@3,2@3 1:0@3,2@3
a at 3 has active 0:0,2 1:0,2
> b sends a heartbeat
22 b epoch 3 ← 1 stable active 0:1@3,3@3 1:1@3,3@3
b at 3 has active 0:1,3 1:1,3
"""
    )


def test_the_initial_delay_of_a_group_that_is_gone_does_nothing() -> None:
    delayed = NO_DELAY._replace(initial_rebalance_delay_ms=GroupSetting(3_000))
    transcript = StreamsTranscript(delayed, topics=READY)
    a = StreamThread(transcript, "a")
    a.join()
    a.leave()
    records = len(transcript.bench.log)
    transcript.wait(3_000)
    assert len(transcript.bench.log) == records


def test_assignments_keep_their_interval() -> None:
    transcript = StreamsTranscript(
        NO_DELAY._replace(assignment_interval_ms=GroupSetting(1_000)), topics=READY
    )
    a, b = StreamThread(transcript, "a"), StreamThread(transcript, "b")
    a.join()
    assert StatusCode.ASSIGNMENT_DELAYED in codes(b.join())
    transcript.wait(1_000)
    assert codes(b.heartbeat()) == []
    assert b.epoch == 3


def test_the_assignment_of_a_group_of_another_size_of_source_topic() -> None:
    transcript = StreamsTranscript(topics=SOURCES)
    a = StreamThread(transcript, "a", stateless_topology("orders", "parcels"))
    a.join()
    assert a.tasks == {("0", index) for index in range(4)}
    transcript.change_topics("orders grows", Topics({**SOURCES, "orders": 6}))
    a.heartbeat()
    assert a.tasks == {("0", index) for index in range(6)}


def test_a_deleted_source_topic_takes_the_tasks_away() -> None:
    transcript = StreamsTranscript(topics=SOURCES)
    a = StreamThread(transcript, "a", stateless_topology("orders"))
    a.join()
    transcript.change_topics("orders is deleted", Topics({"parcels": 2}), ["orders"])
    assert codes(a.heartbeat()) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert a.tasks == set()
    assert group_of(transcript).state_name == "NotReady"


def test_a_member_with_an_older_topology_is_told_so() -> None:
    transcript = StreamsTranscript()
    StreamThread(transcript, "a", stateless_topology(epoch=1)).join()
    old = StreamThread(transcript, "b", stateless_topology(epoch=0))
    assert codes(old.join()) == [StatusCode.STALE_TOPOLOGY]


def test_the_topology_of_a_group_cannot_change() -> None:
    transcript = StreamsTranscript()
    StreamThread(transcript, "a", stateless_topology("orders")).join()
    refused = StreamThread(transcript, "b", stateless_topology("parcels")).join()
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "cannot change" in (refused.error_message or "")


def test_a_shutdown_request_reaches_all_members_until_the_group_is_empty() -> None:
    transcript = StreamsTranscript()
    a, b = (StreamThread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    b.join()
    a.leave(shutdown_application=True)
    assert codes(b.heartbeat()) == [StatusCode.SHUTDOWN_APPLICATION]
    assert codes(StreamThread(transcript, "c", stateless_topology()).join()) == [
        StatusCode.SHUTDOWN_APPLICATION
    ]
    transcript.wait(60_000)
    assert codes(a.join()) == []


def test_a_member_without_heartbeats_is_removed() -> None:
    transcript = StreamsTranscript()
    a, b = (StreamThread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    b.join()
    transcript.wait(30_000)
    a.report_tasks()
    transcript.wait(15_000)
    assert set(group_of(transcript).members) == {"a"}
    a.report_tasks()
    a.report_tasks()
    assert a.tasks == {("0", index) for index in range(4)}


def test_a_member_that_does_not_revoke_is_removed() -> None:
    transcript = StreamsTranscript()
    a, b = (StreamThread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    b.join()
    for _ in range(7):
        a.heartbeat()
        b.heartbeat()
        transcript.wait(10_000)
    assert set(group_of(transcript).members) == {"b"}


def test_timeouts_start_again_after_a_load() -> None:
    transcript = StreamsTranscript()
    a, b = (StreamThread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    b.join()
    a.heartbeat()
    transcript.wait(30_000)
    transcript.reload()
    transcript.wait(30_000)
    assert set(group_of(transcript).members) == {"a", "b"}
    transcript.wait(15_000)
    assert group_of(transcript).is_empty


def test_a_removal_that_could_not_be_written_is_tried_again() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology())
    a.join()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    transcript.wait(45_000)
    assert not group_of(transcript).is_empty
    transcript.wait(500)
    assert group_of(transcript).is_empty


def test_a_lost_join_changes_nothing() -> None:
    transcript = StreamsTranscript()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a = StreamThread(transcript, "a", stateless_topology())
    assert a.join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert transcript.group not in transcript.bench.shard.state.groups
    a.join()
    assert a.tasks == {("0", index) for index in range(4)}


def test_a_lost_append_of_a_new_topic_configuration_is_repeated() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a")
    a.join()
    transcript.create_missing_topics()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a.heartbeat()
    a.heartbeat()
    assert len(a.tasks) == 8


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"active_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}, ErrorCode.INVALID_REQUEST),
        ({"standby_tasks": None}, ErrorCode.INVALID_REQUEST),
        ({"topology": None}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"topology": stateless_topology(epoch=-1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_joins_are_rejected(fields: dict[str, Any], code: ErrorCode) -> None:
    transcript = StreamsTranscript()
    response = StreamThread(transcript, "a").join(**fields)
    assert response.error_code == code
    assert response.error_message
    assert transcript.bench.log == []


def test_invalid_heartbeats_are_rejected() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology())
    assert a.heartbeat().error_code == ErrorCode.INVALID_REQUEST
    assert a.leave().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    a.join()
    records = len(transcript.bench.log)
    wrong: list[dict[str, Any]] = [
        {"topology": stateless_topology()},
        {"active_tasks": []},
        {
            "active_tasks": [TaskIds(subtopology_id="0", partitions=[4])],
            "standby_tasks": [],
            "warmup_tasks": [],
        },
        {
            "active_tasks": [TaskIds(subtopology_id="9", partitions=[0])],
            "standby_tasks": [],
            "warmup_tasks": [],
        },
        {"rack_id": ""},
    ]
    for fields in wrong:
        a.epoch = 2
        assert a.heartbeat(**fields).error_code == ErrorCode.INVALID_REQUEST
    for epoch, code in (
        (1, ErrorCode.FENCED_MEMBER_EPOCH),
        (3, ErrorCode.FENCED_MEMBER_EPOCH),
        (-2, ErrorCode.INVALID_REQUEST),
        (-3, ErrorCode.INVALID_REQUEST),
    ):
        a.epoch = epoch
        assert a.heartbeat().error_code == code
    other = StreamThread(transcript, "b")
    other.epoch = 2
    assert other.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(transcript.bench.log) == records


def test_a_full_group_rejects_further_members() -> None:
    transcript = StreamsTranscript(NO_DELAY._replace(max_size=1))
    a, b = (StreamThread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    assert b.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.join().error_code == ErrorCode.NONE


def test_a_streams_group_does_not_become_a_consumer_group() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology())
    a.join()
    a.leave()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    response = transcript.bench.call(request, ConsumerGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


# -- static members ----------------------------------------------------------------------------------------


def test_a_static_member_returns_with_its_tasks_and_without_a_rebalance() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology(), instance_id="i", process_id="p")
    b = StreamThread(transcript, "b", stateless_topology())
    a.join()
    b.join()
    for _ in range(2):
        a.report_tasks()
        b.report_tasks()
    group, tasks = group_of(transcript), a.tasks
    epoch = group.epoch
    a.leave(-2)
    b.heartbeat()
    assert len(b.tasks) == 2
    again = StreamThread(transcript, "a2", stateless_topology(), instance_id="i", process_id="p")
    again.join()
    assert again.tasks == tasks
    assert group.epoch == epoch
    assert set(group.members) == {"a2", "b"}
    assert group.static_members == {"i": "a2"}


def test_a_static_member_whose_process_changed_rebalances() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology(), instance_id="i", process_id="p")
    a.join()
    a.leave(-2)
    epoch = group_of(transcript).epoch
    StreamThread(transcript, "a2", stateless_topology(), instance_id="i", process_id="q").join()
    assert group_of(transcript).epoch == epoch + 1


def test_an_instance_id_belongs_to_one_member() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology(), instance_id="i")
    a.join()
    other = StreamThread(transcript, "b", stateless_topology(), instance_id="i")
    assert other.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    other.epoch = 2
    assert other.heartbeat().error_code == ErrorCode.FENCED_INSTANCE_ID
    unknown = StreamThread(transcript, "c", stateless_topology(), instance_id="j")
    unknown.epoch = 2
    assert unknown.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_return_is_removed() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology(), instance_id="i")
    a.join()
    a.leave(-2)
    transcript.wait(45_000)
    assert group_of(transcript).is_empty
    assert group_of(transcript).static_members == {}


# -- version 1 ---------------------------------------------------------------------------------------------


def test_version_1_has_the_settings_of_offsets() -> None:
    transcript = StreamsTranscript(NO_DELAY._replace(acceptable_recovery_lag=GroupSetting(5, 0, 2**63 - 1)))
    old = StreamThread(transcript, "a", stateless_topology()).join()
    assert (old.acceptable_recovery_lag, old.task_offset_interval_ms) == (-1, 0)
    new = StreamThread(transcript, "b", stateless_topology(), version=1).join()
    assert (new.acceptable_recovery_lag, new.task_offset_interval_ms) == (5, 60_000)
    assert new.topology_description_required


def test_version_1_names_missing_client_tags() -> None:
    tagged = NO_DELAY._replace(rack_aware_tags=("zone", "cluster"))
    transcript = StreamsTranscript(tagged)
    old = StreamThread(transcript, "a", stateless_topology())
    assert codes(old.join()) == []
    new = StreamThread(transcript, "b", stateless_topology(), version=1)
    response = new.join(client_tags=[KeyValue(key="zone", value="z1")])
    assert codes(response) == [StatusCode.MISSING_CLIENT_TAGS]
    assert response.status is not None
    assert "cluster" in response.status[0].status_detail
    assert "zone" not in response.status[0].status_detail


def test_offsets_are_kept_until_the_member_leaves() -> None:
    transcript = StreamsTranscript(topics=READY)
    a = StreamThread(transcript, "a", counting_topology(), version=1)
    a.join()
    offset = TaskOffset(subtopology_id="1", partition=0, offset=7)
    a.report_offsets([offset], [replace_offset(offset, 9)])
    (known,) = group_of(transcript).task_offsets.values()
    assert known is not None
    assert list(known.offsets.values()) == [7]
    assert list(known.end_offsets.values()) == [9]
    a.leave()
    assert group_of(transcript).task_offsets == {}


def replace_offset(offset: TaskOffset, value: int) -> TaskOffset:
    return TaskOffset(subtopology_id=offset.subtopology_id, partition=offset.partition, offset=value)


def test_offsets_of_tasks_that_do_not_exist_are_dropped() -> None:
    transcript = StreamsTranscript(topics=READY)
    a = StreamThread(transcript, "a", version=1)
    a.join()
    known = TaskOffset(subtopology_id="1", partition=3, offset=7)
    unknown = [
        TaskOffset(subtopology_id=name, partition=index, offset=7)
        for name, index in (("1", 4), ("1", -1), ("2", 0))
    ]
    a.report_offsets([known, *unknown], [*unknown, known])
    (kept,) = group_of(transcript).task_offsets.values()
    assert kept is not None
    assert len(kept.offsets) == len(kept.end_offsets) == 1


def test_an_old_version_may_report_end_offsets_alone() -> None:
    transcript = StreamsTranscript(topics=READY)
    a = StreamThread(transcript, "a")
    a.join()
    end = TaskOffset(subtopology_id="1", partition=3, offset=7)
    assert a.heartbeat(task_end_offsets=[end]).error_code == ErrorCode.NONE


def test_offsets_of_members_that_could_not_join_are_forgotten() -> None:
    transcript = StreamsTranscript()
    a = StreamThread(transcript, "a", stateless_topology(), version=1)
    a.join()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    StreamThread(transcript, "b", stateless_topology(), version=1).join()
    a.heartbeat()
    StreamThread(transcript, "c", stateless_topology(), version=1).join()
    assert set(group_of(transcript).task_offsets) == {"a", "c"}


def test_a_warm_up_task_that_has_caught_up_becomes_active() -> None:
    transcript = StreamsTranscript(NO_DELAY._replace(assignors=("highly_available",)), topics=READY)
    a, b = (StreamThread(transcript, name, version=1) for name in "ab")
    a.join()
    a.report_tasks()
    b.join()
    for _ in range(2):
        a.report_tasks()
        b.report_tasks()
    warming = [(each.subtopology_id, index) for each in b.warmup for index in each.partitions]
    assert len(warming) == 2
    assert a.tasks > set(warming)
    group = group_of(transcript)
    epoch = group.epoch
    ends = [TaskOffset(subtopology_id=name, partition=index, offset=50_000) for name, index in warming]
    b.report_offsets([replace_offset(each, 39_999) for each in ends], ends)
    assert group.epoch == epoch
    b.report_offsets([replace_offset(each, 40_000) for each in ends], ends)
    assert group.epoch == epoch + 1
    b.report_offsets([replace_offset(each, 40_001) for each in ends], ends)
    assert group.epoch == epoch + 1
    for _ in range(3):
        b.report_tasks()
        a.report_tasks()
    assert b.tasks >= set(warming)
    assert group.state_name == "Stable"


def test_a_warm_up_task_becomes_active_although_an_append_failed() -> None:
    transcript = StreamsTranscript(NO_DELAY._replace(assignors=("highly_available",)), topics=READY)
    a, b = (StreamThread(transcript, name, version=1) for name in "ab")
    a.join()
    b.join()
    for _ in range(2):
        a.report_tasks()
        b.report_tasks()
    epoch = group_of(transcript).epoch
    ends = [
        TaskOffset(subtopology_id=each.subtopology_id, partition=index, offset=5)
        for each in b.warmup
        for index in each.partitions
    ]
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    b.report_offsets(ends, ends)
    assert group_of(transcript).epoch == epoch
    b.heartbeat()
    assert group_of(transcript).epoch == epoch + 1


# -- targets that are computed outside the event loop ------------------------------------------------------


def large() -> tuple[StreamsTranscript, StreamThread]:
    transcript = StreamsTranscript(topics={"orders": MAX_INLINE_TASKS + 1})
    a = StreamThread(transcript, "a", stateless_topology())
    assert codes(a.join()) == [StatusCode.ASSIGNMENT_DELAYED]
    return transcript, a


def compute(transcript: StreamsTranscript) -> None:
    """Complete the only pending query."""
    (query,) = transcript.bench.queries
    assert isinstance(query, ComputeTasks)
    transcript.bench.queries.clear()
    result = BUILTIN_TASK_ASSIGNORS[query.assignor].assign(query.spec, query.topology)
    transcript.bench.run(TargetComputed(query.group_id, query.group_epoch, result))


def test_a_large_target_is_computed_by_a_query() -> None:
    transcript, a = large()
    assert codes(a.heartbeat()) == [StatusCode.ASSIGNMENT_DELAYED]
    compute(transcript)
    assert codes(a.heartbeat()) == []
    assert len(a.tasks) == MAX_INLINE_TASKS + 1
    assert transcript.bench.queries == []


def test_a_target_of_an_earlier_epoch_is_computed_again() -> None:
    transcript, a = large()
    b = StreamThread(transcript, "b", stateless_topology())
    b.join()
    compute(transcript)
    assert group_of(transcript).target_epoch == 1
    compute(transcript)
    a.heartbeat()
    b.heartbeat()
    assert len(a.tasks | b.tasks) == MAX_INLINE_TASKS + 1
    assert a.tasks.isdisjoint(b.tasks)


def test_a_failed_query_is_repeated_later() -> None:
    transcript, a = large()
    transcript.bench.queries.clear()
    transcript.bench.run(TargetComputed("g", 2, AssignorFailure("sticky", "failed")))
    assert codes(a.heartbeat()) == [StatusCode.ASSIGNMENT_DELAYED]
    assert transcript.bench.queries == []
    transcript.wait(10_000)
    a.heartbeat()
    compute(transcript)
    a.heartbeat()
    assert len(a.tasks) == MAX_INLINE_TASKS + 1
    assert group_of(transcript).failure is None


def test_a_target_that_could_not_be_written_is_computed_again_later() -> None:
    transcript, a = large()
    transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    compute(transcript)
    assert codes(a.heartbeat()) == [StatusCode.ASSIGNMENT_DELAYED]
    assert transcript.bench.queries == []
    transcript.wait(10_000)
    a.heartbeat()
    compute(transcript)
    a.heartbeat()
    assert len(a.tasks) == MAX_INLINE_TASKS + 1


def test_the_tasks_of_a_group_are_limited() -> None:
    transcript = StreamsTranscript(topics={"orders": MAX_TASKS + 1})
    a = StreamThread(transcript, "a", stateless_topology())
    response = a.join()
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert f"the maximum of {MAX_TASKS}" in str(response.error_message)
    assert transcript.group not in transcript.bench.shard.state.groups


def test_a_lost_query_is_repeated() -> None:
    transcript, a = large()
    transcript.bench.queries.clear()
    for _ in range(3):
        transcript.wait(20_000)
        a.heartbeat()
    compute(transcript)
    a.heartbeat()
    assert len(a.tasks) == MAX_INLINE_TASKS + 1


def test_the_result_for_a_group_without_members_is_dropped() -> None:
    transcript, a = large()
    a.leave()
    records = len(transcript.bench.log)
    compute(transcript)
    assert len(transcript.bench.log) == records


class Stubborn:
    """A task assignor that fails."""

    name = "sticky"
    uses_offsets = False

    def assign(self, group: GroupSpec, topology: Topology) -> TaskAssignment:
        raise TaskAssignorError("no")


def test_an_assignor_that_fails_inline_fails_the_heartbeat() -> None:
    transcript = StreamsTranscript(topics=READY)
    transcript.bench.shard.state.task_assignors = {"sticky": Stubborn()}
    response = StreamThread(transcript, "a").join()
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "sticky" in (response.error_message or "")


def test_settings_stay_within_the_limits_of_the_broker() -> None:
    settings = StreamsSettings()
    assert settings.of_group({}).heartbeat_interval_ms == 5_000
    assert settings.of_group({"streams.heartbeat.interval.ms": "1"}).heartbeat_interval_ms == 5_000
    assert settings.of_group({"streams.session.timeout.ms": "99999999"}).session_timeout_ms == 60_000
    assert settings.of_group({"streams.assignor.name": "gone"}).assignor == "sticky"
