from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ruslo.broker.coordinators.groups.assignor_runner import AssignorRunner
from ruslo.machines.assignors.spec import Assignment, GroupSpec, MemberSpec, TopicSpec
from ruslo.machines.groups.consumer.ports import AssignorFailure, AssignorResult
from tests.support.brokers.live_node import run

TOPIC = b"0123456789abcdef"
GROUP = GroupSpec(
    "g",
    {name: MemberSpec(name, frozenset({TOPIC})) for name in ("a", "b")},
    {TOPIC: TopicSpec(TOPIC, "t", 2)},
    homogeneous=True,
)


@dataclass(frozen=True)
class Stub:
    work: Callable[[GroupSpec], Assignment]
    name: str = "stub"
    needs_lag: bool = False

    def assign(self, group: GroupSpec) -> Assignment:
        return self.work(group)


def outcome(work: Callable[[GroupSpec], Assignment], timeout_ms: int = 20_000) -> AssignorResult:
    results: list[AssignorResult] = []

    async def scenario() -> None:
        results.append(await AssignorRunner({"stub": Stub(work)}, timeout_ms).run("stub", GROUP))

    run(scenario())
    return results[0]


def fails(_: GroupSpec) -> Assignment:
    raise ValueError("I give up")


def returns_late(_: GroupSpec) -> Assignment:
    raise SystemExit(3)


def test_a_valid_result_is_checked_and_returned() -> None:
    assert outcome(lambda _: {"a": {TOPIC: [0]}, "b": {TOPIC: (1,)}}) == {
        "a": {TOPIC: frozenset({0})},
        "b": {TOPIC: frozenset({1})},
    }


def test_assignor_runs_outside_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    def assign(_: GroupSpec) -> Assignment:
        threads.append(threading.current_thread())
        return {"a": {TOPIC: [0, 1]}}

    assert not isinstance(outcome(assign), AssignorFailure)
    assert threads[0] is not threading.main_thread()


def test_errors_become_failures() -> None:
    assert outcome(fails) == AssignorFailure("stub", "raised ValueError: I give up")
    assert outcome(returns_late) == AssignorFailure("stub", "raised SystemExit: 3")
    twice = outcome(lambda _: {"a": {TOPIC: [0, 1]}, "b": {TOPIC: [1]}})
    assert isinstance(twice, AssignorFailure)
    assert "to both" in twice.message


async def test_unknown_assignor_is_a_failure() -> None:
    result = await AssignorRunner({}, 1000).run("stub", GROUP)
    assert isinstance(result, AssignorFailure)


def test_slow_assignor_times_out_and_is_rejected_until_it_ends() -> None:
    free = threading.Event()
    calls: list[int] = []

    def assign(_: GroupSpec) -> Assignment:
        calls.append(1)
        assert free.wait(20)
        return {"a": {TOPIC: [0, 1]}}

    async def scenario() -> None:
        runner = AssignorRunner({"stub": Stub(assign), "other": Stub(lambda _: {"a": {TOPIC: [0, 1]}})}, 30)
        slow = await runner.run("stub", GROUP)
        assert isinstance(slow, AssignorFailure)
        assert "did not finish within 30 ms" in slow.message
        busy = await runner.run("stub", GROUP)
        assert isinstance(busy, AssignorFailure)
        assert "still busy" in busy.message
        assert len(calls) == 1
        assert not isinstance(await runner.run("other", GROUP), AssignorFailure)
        free.set()
        results: list[AssignorResult] = []
        while not results or isinstance(results[-1], AssignorFailure):
            results.append(await runner.run("stub", GROUP))
            await asyncio.sleep(0.001)

    run(scenario())
    free.set()


def test_calls_of_one_assignor_do_not_overlap() -> None:
    running: list[int] = []
    most: list[int] = []

    def assign(_: GroupSpec) -> Assignment:
        running.append(1)
        most.append(len(running))
        threading.Event().wait(0.002)
        running.pop()
        return {"a": {TOPIC: [0, 1]}}

    async def scenario() -> None:
        runner = AssignorRunner({"stub": Stub(assign)}, 20_000)
        await asyncio.gather(*(runner.run("stub", GROUP) for _ in range(5)))

    run(scenario())
    assert most == [1] * 5
