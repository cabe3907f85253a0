from __future__ import annotations

import asyncio
import contextlib

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.wire.metadata import PartitionInfo, TopicInfo
from ruslo.console.sampler import Sampler
from ruslo.console.snapshot import Snapshot
from ruslo.model.errors import KafkaError
from ruslo.model.ids import ZERO_UUID
from ruslo.model.topics import TopicPartition


def snapshot(at_s: float, ends: dict[str, int], size_bytes: int = 0) -> Snapshot:
    topics = {
        name: TopicInfo(name, ZERO_UUID, name.startswith("__"), (PartitionInfo(0, 1, 0, (1,), (1,), ()),))
        for name in ends
    }
    ends_by_partition = {TopicPartition(name, 0): end for name, end in ends.items()}
    sizes = {TopicPartition(name, 0): size_bytes for name in ends}
    return Snapshot(at_s, {}, 1, topics, ends_by_partition, sizes, {1: ()}, {1: 2.5, 2: 7.5})


def sampler_after(*snapshots: Snapshot) -> Sampler:
    sampler = Sampler(Admin("127.0.0.1:1"))
    for each in snapshots:
        if sampler._is_due(each):
            sampler._add_sample(each)
    return sampler


def test_rates_are_computed_from_end_offsets() -> None:
    sampler = sampler_after(snapshot(10, {"a": 100, "b": 5}), snapshot(12, {"a": 300, "b": 5}))
    assert sampler.topic_rates == {"a": 100.0, "b": 0.0}
    (sample,) = sampler.samples
    assert (sample.records_per_s, sample.latency_ms) == (100.0, 7.5)
    assert [each.records_per_s for each in sampler.topic_samples("a")] == [100.0]
    assert sampler.topic_samples("b") == [], "an idle topic has no history"


def test_snapshots_in_quick_succession_are_not_samples() -> None:
    snapshots = [snapshot(at, {"a": end}) for at, end in ((0, 0), (2, 200), (2.01, 200), (4, 400))]
    assert [sample.records_per_s for sample in sampler_after(*snapshots).samples] == [100.0, 100.0]


def test_new_and_recreated_topics() -> None:
    sampler = sampler_after(snapshot(10, {"a": 100}), snapshot(12, {"a": 10, "new": 50}))
    assert sampler.topic_rates == {"a": 0.0, "new": 25.0}


def test_internal_topics_are_not_counted() -> None:
    sampler = sampler_after(snapshot(10, {"__consumer_offsets": 0}), snapshot(12, {"__consumer_offsets": 99}))
    assert sampler.samples[0].records_per_s == 0.0


def test_retention_does_not_make_the_byte_rate_negative() -> None:
    snapshots = [snapshot(at, {"a": 0}, size) for at, size in ((0, 0), (2, 1000), (4, 5000), (6, 100))]
    assert [sample.bytes_per_s for sample in sampler_after(*snapshots).samples] == [None, 2000.0, 0.0]


def test_an_unreachable_cluster_is_a_problem() -> None:
    async def refresh() -> Sampler:
        sampler = Sampler(Admin("127.0.0.1:1"))
        try:
            await sampler.fresh()
        except KafkaError:
            return sampler
        raise AssertionError("the cluster is unreachable")

    problem = asyncio.run(refresh()).problem
    assert problem is not None
    assert "connection refused" in problem.lower()


async def test_cancelled_listeners_do_not_block_others() -> None:
    """A disconnected browser is cancelled repeatedly; once, this left a shared lock locked."""
    sampler = Sampler(Admin("127.0.0.1:1"))

    async def listen() -> None:
        async for _ in sampler.background_updates():
            return

    async def refresh() -> None:
        with contextlib.suppress(KafkaError):
            await sampler.fresh(0)

    cancelled = [asyncio.create_task(listen()) for _ in range(20)]
    await asyncio.sleep(0)
    await refresh()
    for _ in range(3):
        for task in cancelled:
            task.cancel()
        await asyncio.sleep(0)
    ended = await asyncio.gather(*cancelled, return_exceptions=True)
    assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)

    remaining = asyncio.create_task(listen())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await refresh()
        await remaining


@pytest.mark.parametrize("loop_iterations", range(5))
async def test_a_listener_that_is_cancelled_during_an_update_ends(loop_iterations: int) -> None:
    """``asyncio.wait_for`` of Python 3.11 drops such a cancellation, so the console never stopped."""
    sampler = Sampler(Admin("127.0.0.1:1"))

    async def listen() -> None:
        async for _ in sampler.background_updates():
            pass

    listener = asyncio.create_task(listen())
    for _ in range(3):
        await asyncio.sleep(0)
    sampler._notify()
    for _ in range(loop_iterations):
        await asyncio.sleep(0)
    listener.cancel()
    done, _ = await asyncio.wait([listener], timeout=1)
    assert done
