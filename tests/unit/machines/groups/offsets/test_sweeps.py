"""Sweeps: expired offsets, empty groups and offsets of deleted topics."""

from __future__ import annotations

from ruslo.machines.groups.events import MetadataChanged
from ruslo.machines.groups.offsets.sweeps import MAX_TOMBSTONES_PER_BATCH
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.machine import MAX_ITEMS_PER_EVENT, TimerFired
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from tests.support.groups.classic_client import ClassicClient, stable_group
from tests.support.groups.group_bench import GroupBench, Topics
from tests.support.groups.offset_calls import commit, commit_in_transaction, fetch

HOUR_MS = 3_600_000
SETTINGS = GroupSettings(offsets_retention_ms=HOUR_MS, offsets_retention_check_interval_ms=60_000)


def tombstone(group: str = "g", topic: str = "orders", partition: int = 0) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


def keep_alive(bench: GroupBench, client: ClassicClient, duration_ms: int) -> None:
    """Keep the member alive for this time without reading."""
    for _ in range(0, duration_ms, 600_000):
        bench.advance(600_000)
        assert client.heartbeat() is ErrorCode.NONE


def test_offsets_of_a_simple_group_expire_after_their_commit_and_the_group_with_them() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 1)
    bench.advance(HOUR_MS // 2)
    commit(bench, 2, partition=1)
    bench.advance(HOUR_MS // 2 - 1)
    assert fetch(bench) == 1
    bench.advance(1)
    assert (fetch(bench), fetch(bench, partition=1)) == (-1, 2)
    assert "g" in bench.shard.state.groups
    bench.advance(HOUR_MS // 2)
    assert "g" not in bench.shard.state.groups
    assert bench.records(2) == [
        tombstone(),
        tombstone(partition=1),
        GroupRecord(GroupMetadataKey(group="g"), None),
    ]


def test_offsets_of_an_empty_group_expire_after_it_became_empty() -> None:
    bench = GroupBench(SETTINGS)
    a = ClassicClient(bench, "a", session_ms=1_800_000)
    stable_group(bench, a)
    a.commit(1)
    keep_alive(bench, a, 4 * HOUR_MS // 2)
    assert fetch(bench) == 1, "the group is in use"
    a.leave()
    bench.advance(HOUR_MS - 1)
    assert fetch(bench) == 1
    bench.advance(60_000)
    assert fetch(bench) == -1, "the next sweep removes them"
    assert "g" not in bench.shard.state.groups


def test_topic_without_subscribers_in_a_stable_group_expires() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 7, topic="parcels")
    a = ClassicClient(bench, "a", session_ms=1_800_000, topics=["orders"])
    stable_group(bench, a)
    a.commit(1)
    keep_alive(bench, a, 3 * HOUR_MS // 2)
    assert fetch(bench, topic="parcels") == -1
    assert fetch(bench) == 1


def test_active_group_of_another_type_keeps_all_offsets() -> None:
    bench = GroupBench(SETTINGS)
    a = ClassicClient(bench, "a", session_ms=1_800_000, protocol_type="connect", protocols={"v1": b"opaque"})
    stable_group(bench, a)
    a.commit(1)
    keep_alive(bench, a, 3 * HOUR_MS // 2)
    assert fetch(bench) == 1


def test_invalid_subscription_keeps_all_offsets() -> None:
    bench = GroupBench(SETTINGS)
    a = ClassicClient(bench, "a", session_ms=1_800_000, protocols={"range": b"\x00\x01\xff"})
    stable_group(bench, a)
    a.commit(1)
    keep_alive(bench, a, 3 * HOUR_MS // 2)
    assert fetch(bench) == 1


def test_retention_of_old_clients() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 1, retention_ms=120_000, version=4)
    commit(bench, 2, partition=1, retention_ms=3 * HOUR_MS, version=4)
    bench.advance(119_999)
    assert fetch(bench) == 1
    bench.advance(1)
    assert fetch(bench) == -1
    bench.advance(2 * HOUR_MS)
    assert fetch(bench, partition=1) == 2


def test_offsets_of_open_transactions_stay() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 1)
    commit_in_transaction(bench, 7, 2)
    bench.advance(2 * HOUR_MS)
    assert fetch(bench) == 1
    bench.end_transaction(7, commit=False)
    bench.advance(60_000)
    assert fetch(bench) == -1
    assert "g" not in bench.shard.state.groups


def test_group_with_only_a_pending_offset_stays() -> None:
    bench = GroupBench(SETTINGS)
    commit_in_transaction(bench, 7, 2)
    bench.advance(2 * HOUR_MS)
    assert "g" in bench.shard.state.groups


def test_empty_group_without_offsets_expires_with_the_next_sweep() -> None:
    bench = GroupBench(SETTINGS)
    a = ClassicClient(bench, "a")
    stable_group(bench, a)
    a.leave()
    bench.advance(60_000)
    assert "g" not in bench.shard.state.groups
    assert bench.records()[-1] == GroupRecord(GroupMetadataKey(group="g"), None)


def test_sweep_continues_until_all_groups_were_checked() -> None:
    bench = GroupBench(SETTINGS)
    groups = [f"g{number}" for number in range(2 * MAX_ITEMS_PER_EVENT + 7)]
    for group in groups:
        commit(bench, 1, group=group)
    written = len(bench.log)
    bench.advance(HOUR_MS)
    assert bench.shard.state.groups == {}
    assert len(bench.log) == written + 2 * len(groups)


def test_sweep_without_results_has_steps_too() -> None:
    bench = GroupBench(SETTINGS)
    for number in range(2 * MAX_ITEMS_PER_EVENT + 1):
        commit(bench, 1, group=f"g{number}")
    bench.now_ms = 60_000
    steps = 0
    while (deadline_ms := bench.shard.deadline_ms()) is not None and deadline_ms <= bench.now_ms:
        bench.run(TimerFired())
        steps += 1
    assert steps == 3
    assert bench.shard.deadline_ms() == 120_000


def test_next_sweep_repeats_a_failed_one() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 1)
    bench.advance(HOUR_MS - 1)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(1)
    assert fetch(bench) == 1
    bench.advance(60_000)
    assert fetch(bench) == -1


def test_offsets_of_deleted_topics_are_removed_at_once() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 1)
    commit(bench, 2, topic="parcels")
    commit(bench, 3, group="h", topic="parcels", partition=1)
    commit_in_transaction(bench, 7, 4, group="i", topic="parcels")
    written = len(bench.log)
    bench.change_topics(Topics({"orders": 4}), deleted=["parcels"])
    removed = [
        tombstone(topic="parcels"),
        tombstone("h", "parcels", 1),
        tombstone("i", "parcels"),
    ]
    found = bench.records(written)
    assert len(found) == len(removed)
    assert all(record in found for record in removed)
    assert fetch(bench) == 1
    bench.end_transaction(7, commit=True)
    assert fetch(bench, group="i", topic="parcels") == -1


def test_recreated_topic_starts_without_offsets() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 9)
    bench.change_topics(Topics({"orders": 4}, first_id=2_000), deleted=["orders"])
    assert fetch(bench) == -1
    commit(bench, 1)
    bench.advance(0)
    assert fetch(bench) == 1


def test_many_offsets_of_a_deleted_topic_are_removed_in_steps() -> None:
    bench = GroupBench(SETTINGS, Topics({"wide": 3 * MAX_TOMBSTONES_PER_BATCH}))
    for partition in range(3 * MAX_TOMBSTONES_PER_BATCH):
        commit(bench, 1, topic="wide", partition=partition)
    bench.topics = Topics({})
    bench.run(MetadataChanged(bench.topics, frozenset({"wide"}), frozenset({"wide"})))
    largest = 0
    while (deadline_ms := bench.shard.deadline_ms()) is not None and deadline_ms <= bench.now_ms:
        before = len(bench.log)
        bench.run(TimerFired())
        largest = max(largest, len(bench.log) - before)
    assert largest <= MAX_TOMBSTONES_PER_BATCH, "more might not fit into a batch, and none would be removed"
    assert not bench.shard.state.offsets.has_any("g")


def test_transaction_of_a_recreated_topic_keeps_its_offsets() -> None:
    bench = GroupBench(SETTINGS)
    commit(bench, 9)
    commit(bench, 9, partition=1)
    bench.topics = Topics({"orders": 4}, first_id=2_000)
    bench.run(MetadataChanged(bench.topics, frozenset({"orders"}), frozenset({"orders"})))
    # The sweep has not reached the group yet.
    commit_in_transaction(bench, 7, 1)
    commit_in_transaction(bench, 7, 2, group="h")
    bench.advance(0)
    bench.end_transaction(7, commit=True)
    assert (fetch(bench), fetch(bench, group="h")) == (1, 2)
    assert fetch(bench, partition=1) == -1
    bench.reload()
    assert (fetch(bench), fetch(bench, group="h")) == (1, 2)
