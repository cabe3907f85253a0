"""Clients send requests in any order, crash and return, and appends sometimes fail: no request hangs."""

from __future__ import annotations

from random import Random

import pytest

from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.model.errors import ErrorCode
from tests.support.groups.classic_client import ClassicClient
from tests.support.groups.group_bench import GroupBench

STEPS = 250
CRASHED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
PROTOCOLS = [{"range": b"1", "sticky": b"2"}, {"sticky": b"2", "range": b"1"}, {"range": b"3"}]


class Clients:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.bench = GroupBench(GroupSettings(max_size=random.choice([3, 100])))
        self.clients: list[ClassicClient] = []
        for number in range(6):
            instance = random.choice([None, None, f"i{number % 2}"])
            self.clients.append(
                ClassicClient(
                    self.bench,
                    f"c{number}",
                    instance=instance,
                    join_version=random.choice([0, 3, 5, 8, 9] if instance is None else [5, 8, 9]),
                    protocols=random.choice(PROTOCOLS),
                    session_ms=random.choice([6_000, 10_000, 30_000]),
                    rebalance_ms=random.choice([5_000, 20_000]),
                )
            )
        self.calling: dict[ClassicClient, str] = {}

    def step(self) -> None:
        random, bench = self.random, self.bench
        client = random.choice(self.clients)
        self._receive(client)
        if random.random() < 0.03:
            bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        elif random.random() < 0.03:
            bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
        choice = random.random()
        if choice < 0.3:
            if client.join() is None:
                self.calling[client] = "join"
            else:
                self.calling.pop(client, None)
                self._note_join(client)
        elif choice < 0.7:
            if client not in self.calling:
                self._send(client, choice)
        elif choice < 0.71:
            bench.reload()
        else:
            bench.advance(random.choice([1, 500, 3_000, 6_000, 20_000]))

    def _receive(self, client: ClassicClient) -> None:
        if client in self.calling and not client.waits:
            if self.calling.pop(client) == "join":
                client.joined()
                self._note_join(client)
            else:
                client.synced()

    def _note_join(self, client: ClassicClient) -> None:
        if client.last_join.error_code in CRASHED:
            client.member_id = ""

    def _send(self, client: ClassicClient, choice: float) -> None:
        if choice < 0.55:
            assignments = {each.member_id: b"x" for each in self.clients if each.member_id}
            if client.sync(assignments) is None:
                self.calling[client] = "sync"
        elif choice < 0.6:
            client.heartbeat()
        elif choice < 0.65:
            client.commit(1)
        else:
            client.leave()
            client.member_id = ""

    def check(self) -> None:
        state = self.bench.shard.state
        group = state.groups.get("g")
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        members = group.members
        assert group.waiting == sum(each.join is not None for each in members.values())
        static = {each.instance_id: each.member_id for each in members.values() if each.instance_id}
        assert group.static_members == static
        assert group.leader is None or group.leader in members
        assert group.pending_syncs <= members.keys()
        assert not group.pending_joins & members.keys()
        assert group.is_empty == (not members) or group.state is ClassicState.PREPARING
        if group.state is ClassicState.PREPARING:
            timers = (
                state.timers.get(TimerKey("g", None, kind))
                for kind in (TimerKind.JOIN, TimerKind.INITIAL_DELAY)
            )
            assert any(deadline_ms is not None for deadline_ms in timers)
        else:
            assert group.waiting == 0
        for member in members.values():
            watched = state.timers.get(TimerKey("g", member.member_id, TimerKind.SESSION)) is not None
            assert watched or member.join is not None or member.sync is not None


@pytest.mark.parametrize("seed", range(25))
def test_any_order_of_requests_leaves_none_unanswered(seed: int) -> None:
    clients = Clients(seed)
    for _ in range(STEPS):
        clients.step()
        clients.check()
    clients.bench.advance(1_000_000)
    clients.check()
    assert clients.bench.pending_requests == []
    group = clients.bench.shard.state.groups.get("g")
    assert group is None or group.is_empty
