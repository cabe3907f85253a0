"""The cleaner's scheduling class, as Linux reports and sets it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ruslo.storage.cleaner import cpu_priority
from ruslo.storage.cleaner.cpu_priority import CpuPriority, Starving

SECOND_NS = 1_000_000_000

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the system has no idle class")


class Machine:
    """The time that the process ran and waited, and the scheduling policies that it set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, schedstat: Path) -> None:
        self._schedstat = schedstat
        self._ran_ns = self._waited_ns = 0
        self.now_ns = 0
        self.policies: list[int] = []
        self.may_raise_priority = True
        monkeypatch.setattr(cpu_priority, "_SCHEDSTAT", schedstat)
        monkeypatch.setattr(cpu_priority, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(os, "nice", lambda _: 0)
        monkeypatch.setattr(os, "sched_setscheduler", self._set_policy)
        self.advance(ran_s=0, waited_s=0)

    def advance(self, *, ran_s: float, waited_s: float, slept_s: float = 0) -> None:
        self.now_ns += int((ran_s + waited_s + slept_s) * SECOND_NS)
        self._ran_ns += int(ran_s * SECOND_NS)
        self._waited_ns += int(waited_s * SECOND_NS)
        self._schedstat.write_text(f"{self._ran_ns} {self._waited_ns} 7\n")

    def _set_policy(self, _pid: int, policy: int, _param: object) -> None:
        if policy == os.SCHED_OTHER and not self.may_raise_priority:
            raise PermissionError
        self.policies.append(policy)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "schedstat")


def test_uses_the_idle_class_once_there_is_time_to_spare(machine: Machine) -> None:
    priority = CpuPriority(may_idle=True)
    machine.advance(ran_s=0.2, waited_s=0.0)
    priority.adjust()
    assert machine.policies == []  # Too early to decide.
    machine.advance(ran_s=0.2, waited_s=1.0)
    priority.adjust()
    assert machine.policies == []  # Other processes are busy.
    machine.advance(ran_s=0.2, waited_s=0.1)
    priority.adjust()
    assert machine.policies == [os.SCHED_IDLE]
    machine.advance(ran_s=0.2, waited_s=0.4)
    priority.adjust()
    assert machine.policies == [os.SCHED_IDLE]


def test_sleeping_does_not_count(machine: Machine) -> None:
    priority = CpuPriority(may_idle=True)
    for _ in range(2):
        machine.advance(ran_s=0.1, waited_s=0, slept_s=5)
        priority.adjust()
    assert machine.policies == []
    machine.advance(ran_s=0.1, waited_s=0)
    priority.adjust()
    assert machine.policies == [os.SCHED_IDLE]


def test_times_are_read_only_when_the_interval_may_be_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    priority = CpuPriority(may_idle=True)
    reads: list[int] = []

    def times_ns() -> tuple[int, int]:
        reads.append(machine.now_ns)
        return machine.now_ns, 0

    monkeypatch.setattr(cpu_priority, "_times_ns", times_ns)
    for _ in range(100):
        machine.advance(ran_s=0.01, waited_s=0)
        priority.adjust()
    assert len(reads) == 4


def test_returns_to_the_low_priority_when_it_gets_no_time(machine: Machine) -> None:
    priority = CpuPriority(may_idle=True)
    machine.advance(ran_s=1, waited_s=0)
    priority.adjust()
    machine.advance(ran_s=0.01, waited_s=1)
    priority.adjust()
    machine.advance(ran_s=1, waited_s=0)
    priority.adjust()
    assert machine.policies == [os.SCHED_IDLE, os.SCHED_OTHER]


def test_raises_if_the_process_may_not_raise_its_priority(machine: Machine) -> None:
    priority = CpuPriority(may_idle=True)
    machine.advance(ran_s=1, waited_s=0)
    priority.adjust()
    machine.may_raise_priority = False
    machine.advance(ran_s=0.01, waited_s=1)
    with pytest.raises(Starving):
        priority.adjust()


def test_never_uses_the_idle_class_if_not_allowed_or_without_times(machine: Machine, tmp_path: Path) -> None:
    never_idle, without_times = CpuPriority(may_idle=False), CpuPriority(may_idle=True)
    machine.advance(ran_s=1, waited_s=0)
    never_idle.adjust()
    (tmp_path / "schedstat").unlink()
    without_times.adjust()
    assert machine.policies == []


def test_a_real_process_with_time_to_spare_becomes_idle() -> None:
    """The process pretends that it never waits, because the machine that runs the tests may be busy."""
    code = (
        "import os, time\n"
        "from ruslo.storage.cleaner import cpu_priority\n"
        "cpu_priority._times_ns = lambda: (time.process_time_ns() * 1000, 0)\n"
        "priority = cpu_priority.CpuPriority(may_idle=True)\n"
        "while os.sched_getscheduler(0) != os.SCHED_IDLE: priority.adjust()\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(found.stdout) >= 5
