"""A shard as its driver sees it: loading, unloading, failed appends, delayed responses."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Instant, Requested, TimerFired, Unloaded
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from tests.support.groups.classic_client import REBALANCE_MS, ClassicClient, complete_rebalance, stable_group
from tests.support.groups.group_bench import GroupBench
from tests.support.groups.offset_calls import commit, commit_in_transaction, fetch, fetch_all

INFO = RequestInfo(0)
ZERO = Instant(0, 0)


def test_groups_are_loaded_from_the_log() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b", instance="i-b")
    stable_group(bench, a, b)
    a.commit(5)
    bench.reload()
    assert a.sync() == b"a"
    assert a.heartbeat() is ErrorCode.NONE
    assert b.sync() == b"b"
    assert fetch(bench) == 5


def test_members_get_a_full_session_after_a_load() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a, b)
    bench.advance(3_000)
    bench.reload()
    bench.advance(9_999)
    assert a.heartbeat() is ErrorCode.NONE
    bench.advance(1)
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_in_progress_is_dropped() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    b = ClassicClient(bench, "b")
    b.join()
    bench.reload()
    assert b.joined().error_code == ErrorCode.NOT_COORDINATOR
    assert a.heartbeat() is ErrorCode.NONE
    assert bench.shard.state.groups["g"].state_name == "Stable"


def test_rejoin_with_more_protocols_than_recorded_counts_as_changed() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a", protocols={"range": b"r", "sticky": b"s"})
    b = ClassicClient(bench, "b", protocols={"range": b"r", "sticky": b"s"})
    c = ClassicClient(bench, "c", protocols={"range": b"r"})
    stable_group(bench, a, b, c)
    bench.reload()
    assert c.join() is not None, "the follower joins with the recorded protocol"
    assert b.join() is None


def test_parked_syncs_fail_when_the_shard_unloads() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    a.join()
    b.join()
    bench.advance(6_000)
    a.joined()
    b.joined()
    b.sync()
    bench.run(Unloaded())
    assert b.synced() is ErrorCode.NOT_COORDINATOR
    assert bench.shard.deadline_ms() is None
    assert a.heartbeat() is ErrorCode.NOT_COORDINATOR


def test_empty_group_and_its_timestamp_are_loaded() -> None:
    settings = GroupSettings(offsets_retention_ms=3_600_000, offsets_retention_check_interval_ms=60_000)
    bench = GroupBench(settings)
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    a.commit(1)
    a.leave()
    bench.advance(1_800_000)
    bench.reload()
    assert bench.shard.state.groups["g"].state_name == "Empty"
    bench.advance(1_740_000)
    assert fetch(bench) == 1
    bench.advance(60_000)
    assert fetch(bench) == -1


def test_lowered_group_max_size_shrinks_the_group_after_a_load() -> None:
    bench = GroupBench()
    clients = [ClassicClient(bench, name) for name in "abc"]
    stable_group(bench, *clients)
    bench.settings = GroupSettings(max_size=2)
    bench.reload()
    a, b, c = clients
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    b.join()
    last = c.join()
    assert last is not None
    assert last.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(a.joined().members) == 2
    b.joined()
    complete_rebalance(a, b)


def test_pending_offsets_and_markers_are_loaded() -> None:
    bench = GroupBench()
    commit(bench, 1)
    commit_in_transaction(bench, 7, 2)
    commit_in_transaction(bench, 8, 3, partition=1)
    commit_in_transaction(bench, 9, 4, partition=2)
    bench.end_transaction(7, commit=True)
    bench.end_transaction(8, commit=False)
    bench.reload()
    assert fetch_all(bench) == {("orders", 0): 2}
    assert fetch(bench, partition=2, stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.end_transaction(9, commit=True)
    assert fetch(bench, partition=2, stable=True) == 4


def test_deleted_group_stays_deleted() -> None:
    bench = GroupBench(GroupSettings(offsets_retention_check_interval_ms=1_000))
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    a.leave()
    bench.advance(1_000)
    bench.reload()
    assert bench.shard.state.groups == {}


# -- failed appends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 4])
def test_group_that_failed_to_append_does_not_exist(version: int) -> None:
    bench = GroupBench()
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    a = ClassicClient(bench, "a", join_version=version)
    rejected = a.join_once()
    assert rejected is not None
    assert rejected.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.shard.state.groups == {}
    assert len(bench.shard.state.timers) == 1, "only the sweep timer remains"
    stable_group(bench, a)


def test_uncommitted_creation_does_not_affect_later_members() -> None:
    bench = GroupBench()
    bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
    a = ClassicClient(bench, "a", join_version=3)
    rejected = a.join_once()
    assert rejected is not None
    assert rejected.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    b = ClassicClient(bench, "b")
    stable_group(bench, a, b)
    bench.reload()
    assert b.heartbeat() is ErrorCode.NONE


def test_group_whose_empty_state_failed_to_append_is_empty() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(10_000)
    assert bench.shard.state.groups["g"].state_name == "Empty"
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    bench.reload()
    assert a.heartbeat() is ErrorCode.NONE, "the log still has the member, for one more session"


# -- the contract with the driver ----------------------------------------------------------------------------


def test_reads_wait_for_the_appends_before_them() -> None:
    bench = GroupBench()
    outcome = bench.shard.handle(Requested("t", ListGroupsRequest(), INFO), ZERO)
    assert outcome.linearizable
    assert not outcome.records
    assert [reply.token for reply in outcome.replies] == ["t"]


def test_completed_join_is_released_at_once() -> None:
    bench = GroupBench()
    a = ClassicClient(bench, "a")
    a.join()
    outcome = bench.shard.handle(TimerFired(), Instant(3_000, 3_000))
    assert not outcome.linearizable
    assert not outcome.records
    assert [reply.token for reply in outcome.replies] == [a.token]


def test_response_without_records_needs_no_commit() -> None:
    bench = GroupBench()
    outcome = bench.shard.handle(TimerFired(), ZERO)
    assert (outcome.records, outcome.replies, outcome.effects) == ((), [], [])


def test_requests_of_other_apis_are_rejected() -> None:
    bench = GroupBench()
    outcome = bench.shard.handle(Requested("t", ApiVersionsRequest(), INFO), ZERO)
    (reply,) = outcome.replies
    assert isinstance(reply.message, KafkaError)
    assert reply.message.code is ErrorCode.UNSUPPORTED_VERSION


def test_requests_before_the_load_are_rejected() -> None:
    bench = GroupBench()
    bench.shard.state.active = False
    outcome = bench.shard.handle(Requested("t", HeartbeatRequest(), INFO), ZERO)
    (reply,) = outcome.replies
    assert isinstance(reply.message, KafkaError)
    assert reply.message.code is ErrorCode.NOT_COORDINATOR


def test_transactional_append_names_its_producer() -> None:
    bench = GroupBench()
    commit_in_transaction(bench, 7, 1)
    assert bench.log[-1].producer_id == 7


def test_many_expired_sessions_are_handled_in_steps() -> None:
    bench = GroupBench()
    for number in range(100):
        commit(bench, 1, group=f"g{number}")
    clients = [ClassicClient(bench, "a", group=f"g{number}") for number in range(100)]
    for client in clients:
        client.join()
    bench.advance(3_000)
    for client in clients:
        client.joined()
        complete_rebalance(client)
    bench.now_ms += 10_000
    steps = 0
    while (deadline_ms := bench.shard.deadline_ms()) is not None and deadline_ms <= bench.now_ms:
        written = len(bench.log)
        bench.run(TimerFired())
        assert len(bench.log) - written <= 1
        steps += 1
    assert steps == 100
    assert all(group.is_empty for group in bench.shard.state.groups.values())


def test_downgraded_group_rebalances() -> None:
    bench = GroupBench()
    a, b = ClassicClient(bench, "a"), ClassicClient(bench, "b")
    stable_group(bench, a, b)
    bench.shard.state.timers.clear()
    bench.shard.state.timers.set(TimerKey("g", None, TimerKind.ADOPT), bench.now_ms)
    bench.advance(0)
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    bench.advance(10_000)
    assert len(a.joined().members) == 1, "sessions of the members continue"
    assert a.last_join.generation_id == 2
    assert REBALANCE_MS > 10_000


def consumer_heartbeat(epoch: int, member: str = "new") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=30_000 if epoch == 0 else -1,
        subscribed_topic_names=["orders"] if epoch == 0 else None,
        topic_partitions=[] if epoch == 0 else None,
    )


def test_empty_consumer_group_is_converted_to_classic() -> None:
    bench = GroupBench()
    commit(bench, 5)
    bench.call(consumer_heartbeat(0), ConsumerGroupHeartbeatResponse)
    a = ClassicClient(bench, "a", protocol_type="connect", protocols={"v1": b""})
    bench.call(consumer_heartbeat(-1), ConsumerGroupHeartbeatResponse)
    assert bench.shard.state.groups["g"].kind == "consumer"
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.leave() is ErrorCode.UNKNOWN_MEMBER_ID
    written = len(bench.log)
    stable_group(bench, a)
    assert a.generation == 1, "generations start again"
    records = bench.records(written)
    assert [record.key.API_KEY for record in records] == [6, 4, 3, 2, 2]
    assert [record.value is None for record in records] == [True, True, True, False, False]
    bench.reload()
    assert a.heartbeat() is ErrorCode.NONE
    assert fetch(bench) == 5


def test_conversion_that_failed_to_append_keeps_the_consumer_group() -> None:
    bench = GroupBench()
    bench.call(consumer_heartbeat(0), ConsumerGroupHeartbeatResponse)
    bench.call(consumer_heartbeat(-1), ConsumerGroupHeartbeatResponse)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    rejected = ClassicClient(bench, "a").join_once()
    assert rejected is not None
    assert rejected.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.shard.state.groups["g"].kind == "consumer"


def test_settings_may_change_while_leading() -> None:
    bench = GroupBench()
    bench.shard.change_settings(GroupSettings(max_session_timeout_ms=9_000))
    rejected = ClassicClient(bench, "a", session_ms=10_000).join_once()
    assert rejected is not None
    assert rejected.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_group_records_are_of_the_classic_type() -> None:
    bench = GroupBench()
    stable_group(bench, ClassicClient(bench, "a"))
    assert {type(record.key) for record in bench.records()} == {GroupMetadataKey}
