"""The cost of groups: many groups, large groups, and many commits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

import uvloop

from bench.contenders import COMMON_PROPERTIES, new_ruslo, run_load
from bench.group_clients import (
    ClassicMember,
    ConsumerMember,
    commits_per_s,
    connections,
    wait_for_coordinator,
)
from bench.measure import cpu_s, resident_mb
from bench.probed_node import ProbedNode
from bench.setting import Figures, Setting, create_topics, running_node
from tests.support.brokers.node import Node
from tests.support.clients.raw_client import RawClient

GROUPS = 10_000
MEMBERS = 1_000
PARTITIONS = 1_000
CONNECTIONS = 40
COMMITTING_GROUPS = 1_000
COMMIT_CONNECTIONS = 8
COMMIT_S = 10.0
PROBE_RECORDS = 1_000
PAUSE_S = 0.001
HEARTBEAT_S = 0.5


def groups(setting: Setting) -> Figures:
    return many_groups(setting) | commits(setting)


def commits(setting: Setting) -> Figures:
    """One partition per request, many groups, no members: this leaves the work of the coordinator alone."""
    group_ids = [f"committing-{number}" for number in range(COMMITTING_GROUPS)]
    with running_node(setting) as node:
        node.start()
        create_topics(node, {"groups": 1})
        uvloop.run(wait_for_coordinator(node.bootstrap, group_ids))
        commits_per_s(node.port, group_ids, COMMIT_CONNECTIONS, 2.0)
        before_s = cpu_s(node.pid)
        start = time.monotonic()
        rate = commits_per_s(node.port, group_ids, COMMIT_CONNECTIONS, COMMIT_S / setting.divisor)
        used_s = cpu_s(node.pid) - before_s
        done = rate * (time.monotonic() - start)
        return {"commits_per_s": rate, "commits_per_cpu_s": done / used_s}


def many_groups(setting: Setting) -> Figures:
    """Create groups and members, send heartbeats and rebalance while another client produces."""
    if setting.new_node is new_ruslo:
        setting = setting.with_node(lambda folder: ProbedNode(folder, properties=COMMON_PROPERTIES))
    with running_node(setting) as node:
        node.start()
        create_topics(node, {"groups": PARTITIONS, "latency": 1})
        run_load(setting.program, "latency", node, "latency", PROBE_RECORDS, 100)
        uvloop.run(wait_for_coordinator(node.bootstrap, [f"many-{number}" for number in range(100)]))
        with _Probe(setting, node) as probe:
            figures = uvloop.run(_churn(setting, node))
        figures |= probe.figures()
        figures["groups_memory_mb"] = resident_mb(node.pid)
        return figures


async def _churn(setting: Setting, node: Node) -> Figures:
    figures: Figures = {}
    async with connections(node.bootstrap, CONNECTIONS) as clients:
        count = GROUPS // setting.divisor
        members = [ClassicMember(clients[at % CONNECTIONS], f"many-{at}", "groups") for at in range(count)]
        await _timed(node, figures, "groups_made", _one_after_another(members, ClassicMember.rejoin))
        await _timed(node, figures, "groups_heartbeat", _one_after_another(members, ClassicMember.follow))
        await _timed(node, figures, "groups_rebalance", _one_after_another(members, ClassicMember.rejoin))
    count = MEMBERS // setting.divisor
    async with connections(node.bootstrap, count) as clients:
        members = [ClassicMember(client, "large-classic", "groups") for client in clients]
        async with _LargeClassic(members) as large:
            await _timed(node, figures, "large_classic_made", large.join())
            await _timed(node, figures, "large_classic_rebalance", large.rebalance())
        consumers = [
            ConsumerMember(client, "large-consumer", "groups", at) for at, client in enumerate(clients)
        ]
        await _timed(node, figures, "large_consumer_made", _settle(consumers))
    return figures


async def _timed(node: Node, figures: Figures, name: str, work: Awaitable[None]) -> None:
    start = time.monotonic()
    await work
    end = time.monotonic()
    figures[f"{name}_s"] = end - start
    if isinstance(node, ProbedNode):
        await asyncio.sleep(0.2)
        step_ms = node.longest_step_ms(start, end + 0.2)
        figures[f"{name}_longest_step_ms"] = step_ms
        figures["longest_step_ms"] = max(step_ms, figures.get("longest_step_ms", 0.0))


async def _one_after_another(
    members: Sequence[ClassicMember], action: Callable[[ClassicMember], Awaitable[None]]
) -> None:
    """Run one after another on each connection, on all connections at once."""
    by_client: dict[RawClient, list[ClassicMember]] = {}
    for member in members:
        by_client.setdefault(member.client, []).append(member)

    async def of_one(own: list[ClassicMember]) -> None:
        for member in own:
            await action(member)

    await asyncio.gather(*map(of_one, by_client.values()))


async def _spread(calls: Iterable[Coroutine[None, None, None]]) -> None:
    """Start one after another, as independent members do; then wait for all."""
    tasks = []
    for call in calls:
        tasks.append(asyncio.ensure_future(call))
        await asyncio.sleep(PAUSE_S)
    await asyncio.gather(*tasks)


class _LargeClassic:
    """Members that send heartbeats and follow the responses until the context ends."""

    def __init__(self, members: Sequence[ClassicMember]) -> None:
        self._members = members
        self._ended = False
        self._generation = 0
        self._lives: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> _LargeClassic:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
        await asyncio.gather(*self._lives)

    async def join(self) -> None:
        for member in self._members:
            self._lives.append(asyncio.create_task(self._live(member)))
            await asyncio.sleep(PAUSE_S)
        await self._next_generation()

    async def rebalance(self) -> None:
        next(member for member in self._members if member.leads).wants_rebalance = True
        await self._next_generation()

    async def _live(self, member: ClassicMember) -> None:
        await member.rejoin()
        while not self._ended:
            await asyncio.sleep(HEARTBEAT_S)
            await member.follow()

    async def _next_generation(self) -> None:
        """Return when all members have their assignment in the same, newer generation."""
        while True:
            synced = {member.synced_generation for member in self._members}
            if len(synced) == 1 and (generation := synced.pop()) > self._generation:
                self._generation = generation
                return
            await asyncio.sleep(0.01)


async def _settle(members: Sequence[ConsumerMember]) -> None:
    """Send heartbeats, sooner than clients would, until every member has its assignment."""
    for _ in range(60):
        await _spread(member.beat() for member in members)
        if all(member.is_settled for member in members):
            return
    raise TimeoutError("the consumer group did not settle")


class _Probe:
    """Another client that produces one record after another while the context lasts."""

    def __init__(self, setting: Setting, node: Node) -> None:
        self._setting = setting
        self._node = node
        self._ended = threading.Event()
        self._runs: list[dict[str, float]] = []
        self._thread = threading.Thread(target=self._produce, name="latency-probe")

    def __enter__(self) -> _Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _produce(self) -> None:
        while not self._ended.is_set():
            self._runs.append(
                run_load(self._setting.program, "latency", self._node, "latency", PROBE_RECORDS, 100)
            )

    def figures(self) -> Figures:
        return {
            "produce_p99_ms_meanwhile": max(run["p99_ms"] for run in self._runs),
            "produce_max_ms_meanwhile": max(run["max_ms"] for run in self._runs),
        }
