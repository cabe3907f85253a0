from __future__ import annotations

import asyncio
import contextlib

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
    places = {TopicPartition(name, 0): end for name, end in ends.items()}
    sizes = {TopicPartition(name, 0): size_bytes for name in ends}
    return Snapshot(at_s, {}, 1, topics, places, sizes, {1: ()}, {1: 2.5, 2: 7.5})


def sampler_after(*snapshots: Snapshot) -> Sampler:
    sampler = Sampler(Admin("127.0.0.1:1"))
    for each in snapshots:
        if sampler._is_due(each):
            sampler._note(each)
    return sampler


def test_rates_come_from_what_offsets_grew_by() -> None:
    sampler = sampler_after(snapshot(10, {"a": 100, "b": 5}), snapshot(12, {"a": 300, "b": 5}))
    assert sampler.topic_rates == {"a": 100.0, "b": 0.0}
    (sample,) = sampler.samples
    assert (sample.records_per_s, sample.latency_ms) == (100.0, 7.5)
    assert [each.records_per_s for each in sampler.topic_samples("a")] == [100.0]
    assert sampler.topic_samples("b") == [], "a topic that never moved has no history"


def test_two_looks_at_once_are_no_time_to_measure_over() -> None:
    story = [snapshot(at, {"a": end}) for at, end in ((0, 0), (2, 200), (2.01, 200), (4, 400))]
    assert [sample.records_per_s for sample in sampler_after(*story).samples] == [100.0, 100.0]


def test_a_new_topic_was_empty_before_and_one_made_again_begins_anew() -> None:
    sampler = sampler_after(snapshot(10, {"a": 100}), snapshot(12, {"a": 10, "new": 50}))
    assert sampler.topic_rates == {"a": 0.0, "new": 25.0}


def test_what_the_cluster_writes_for_itself_is_not_counted() -> None:
    sampler = sampler_after(snapshot(10, {"__consumer_offsets": 0}), snapshot(12, {"__consumer_offsets": 99}))
    assert sampler.samples[0].records_per_s == 0.0


def test_bytes_never_run_backwards_when_retention_takes_some() -> None:
    story = [snapshot(at, {"a": 0}, size) for at, size in ((0, 0), (2, 1000), (4, 5000), (6, 100))]
    assert [sample.bytes_per_s for sample in sampler_after(*story).samples] == [None, 2000.0, 0.0]


def test_a_cluster_that_is_not_there_is_a_problem_and_told() -> None:
    async def look() -> Sampler:
        sampler = Sampler(Admin("127.0.0.1:1"))
        try:
            await sampler.fresh()
        except KafkaError:
            return sampler
        raise AssertionError("nobody listens there")

    problem = asyncio.run(look()).problem
    assert problem is not None
    assert "connection refused" in problem.lower()


async def test_listeners_that_leave_in_the_middle_of_news_keep_nothing_from_others() -> None:
    """A browser that goes away is cancelled again and again; a shared lock once stayed with one for good."""
    sampler = Sampler(Admin("127.0.0.1:1"))

    async def listen() -> None:
        async for _ in sampler.unhurried_news():
            return

    async def look() -> None:
        with contextlib.suppress(KafkaError):
            await sampler.fresh(0)

    leaving = [asyncio.create_task(listen()) for _ in range(20)]
    await asyncio.sleep(0)
    await look()
    for _ in range(3):
        for task in leaving:
            task.cancel()
        await asyncio.sleep(0)
    ended = await asyncio.gather(*leaving, return_exceptions=True)
    assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)

    staying = asyncio.create_task(listen())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await look()
        await staying
