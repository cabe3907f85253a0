from __future__ import annotations

from ruslo.machines.machine import Unloaded
from ruslo.machines.share_coordinator.records import ShareKey, ShareRecord, ShareUpdate
from ruslo.machines.share_coordinator.state import ShareCoordinatorSettings
from ruslo.model.errors import ErrorCode
from tests.support.share.coordinator_bench import ShareCoordinatorBench
from tests.support.share.state_requests import (
    GROUP,
    TOPIC,
    batches,
    code,
    delete_request,
    initialize_request,
    read_request,
    result,
    write_request,
)

MINUTE_MS = 60_000
OTHER = b"other-topic-id-x"


def bench_with(partitions: int, settings: ShareCoordinatorSettings | None = None) -> ShareCoordinatorBench:
    bench = ShareCoordinatorBench(settings)
    for partition in range(partitions):
        bench.call(initialize_request(1, 0, partition=partition))
    return bench


def test_the_log_is_pruned_before_the_oldest_snapshot_that_is_needed() -> None:
    bench = bench_with(2, ShareCoordinatorSettings(updates_per_snapshot=2, cold_interval_ms=1 << 40))
    for offset in range(3):
        bench.call(write_request((offset, offset, 2, 1)))
    bench.advance(5 * MINUTE_MS)
    # The first partition has a new snapshot; the second one still needs its initialization at offset 1.
    assert bench.log_start == 1
    bench.reload()
    assert batches(bench.call(read_request())) == [(0, 2, 2, 1)]
    bench.call(delete_request(partition=1))
    bench.advance(10 * MINUTE_MS)
    assert bench.log_start == 4
    bench.call(delete_request())
    bench.advance(10 * MINUTE_MS)
    assert bench.log_start == len(bench.log)
    bench.reload()
    assert bench.shard.state.shares == {}


def test_cold_states_are_written_again_while_others_change() -> None:
    bench = bench_with(200)
    bench.call(write_request((0, 9, 0, 1), partition=7))
    for _ in range(3):
        bench.advance(5 * MINUTE_MS)
        bench.call(write_request((0, 0, 2, 1)))
    # Everything was written again, and what is before is deleted.
    assert bench.log_start > 200
    before = len(bench.log)
    bench.reload()
    assert len(bench.shard.state.shares) == 200
    assert batches(bench.call(read_request(partition=7))) == [(0, 9, 0, 1)]
    # Without other records nothing is written again and again.
    bench.advance(20 * MINUTE_MS)
    written = len(bench.log)
    assert written - before <= 200
    bench.advance(60 * MINUTE_MS)
    assert len(bench.log) == written


def test_states_of_deleted_topics_are_deleted() -> None:
    bench = bench_with(150)
    bench.topics.add(OTHER)
    bench.call(initialize_request(topic=OTHER))
    bench.delete_topic(TOPIC)
    bench.advance(0)
    assert list(bench.shard.state.shares) == [ShareKey(GROUP, OTHER, 0)]
    assert sum(record.value is None for record in bench.log) == 150
    # A topic that is deleted while no node leads the partition.
    bench.topics.remove(OTHER)
    bench.reload()
    bench.advance(0)
    assert bench.shard.state.shares == {}
    assert bench.log[-1] == ShareRecord(ShareKey(GROUP, OTHER, 0), None)


def test_an_unloaded_shard_rejects_requests() -> None:
    bench = bench_with(1)
    bench.run(Unloaded())
    assert code(bench.call(read_request())) is ErrorCode.NOT_COORDINATOR
    assert bench.shard.deadline_ms() is None
    assert bench.shard.state.shares == {}


def test_an_update_of_a_deleted_state_is_ignored() -> None:
    bench = ShareCoordinatorBench()
    bench.shard.replay(ShareRecord(ShareKey(GROUP, TOPIC, 0), ShareUpdate(0, 1, 5)), 0)
    assert bench.shard.state.shares == {}


def test_settings_apply_to_later_writes() -> None:
    bench = bench_with(1)
    bench.shard.change_settings(ShareCoordinatorSettings(updates_per_snapshot=0))
    bench.call(write_request((0, 0, 2, 1), start_offset=0))
    assert type(bench.log[-1].value).__name__ == "ShareSnapshot"
    assert result(bench.call(read_request())).start_offset == 0
