"""The system's own figures, and a scheduler that can be asked: both are there on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ruslo.storage.cleaner import courtesy
from ruslo.storage.cleaner.courtesy import Courtesy, Starving

SECOND_NS = 1_000_000_000

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the system has no idle class")


class Machine:
    """How long the process ran and waited, and which policy it asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, schedstat: Path) -> None:
        self._schedstat = schedstat
        self._ran_ns = self._waited_ns = 0
        self.now_ns = 0
        self.policies: list[int] = []
        self.may_rise = True
        monkeypatch.setattr(courtesy, "_SCHEDSTAT", schedstat)
        monkeypatch.setattr(courtesy, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(os, "nice", lambda _: 0)
        monkeypatch.setattr(os, "sched_setscheduler", self._set_policy)
        self.passes(ran_s=0, waited_s=0)

    def passes(self, *, ran_s: float, waited_s: float, slept_s: float = 0) -> None:
        self.now_ns += int((ran_s + waited_s + slept_s) * SECOND_NS)
        self._ran_ns += int(ran_s * SECOND_NS)
        self._waited_ns += int(waited_s * SECOND_NS)
        self._schedstat.write_text(f"{self._ran_ns} {self._waited_ns} 7\n")

    def _set_policy(self, _pid: int, policy: int, _param: object) -> None:
        if policy == os.SCHED_OTHER and not self.may_rise:
            raise PermissionError
        self.policies.append(policy)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "schedstat")


def test_it_takes_idle_time_only_once_there_is_some(machine: Machine) -> None:
    manners = Courtesy(may_idle=True)
    machine.passes(ran_s=0.2, waited_s=0.0)
    manners.look()
    assert machine.policies == []  # too early to tell
    machine.passes(ran_s=0.2, waited_s=1.0)
    manners.look()
    assert machine.policies == []  # others are busy
    machine.passes(ran_s=0.2, waited_s=0.1)
    manners.look()
    assert machine.policies == [os.SCHED_IDLE]
    machine.passes(ran_s=0.2, waited_s=0.4)
    manners.look()
    assert machine.policies == [os.SCHED_IDLE]


def test_a_time_of_sleep_tells_nothing(machine: Machine) -> None:
    manners = Courtesy(may_idle=True)
    for _ in range(2):
        machine.passes(ran_s=0.1, waited_s=0, slept_s=5)
        manners.look()
    assert machine.policies == []
    machine.passes(ran_s=0.1, waited_s=0)
    manners.look()
    assert machine.policies == [os.SCHED_IDLE]


def test_the_system_is_asked_only_when_it_may_have_something_to_tell(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    manners = Courtesy(may_idle=True)
    asked: list[int] = []

    def times_ns() -> tuple[int, int]:
        asked.append(machine.now_ns)
        return machine.now_ns, 0

    monkeypatch.setattr(courtesy, "_times_ns", times_ns)
    for _ in range(100):
        machine.passes(ran_s=0.01, waited_s=0)
        manners.look()
    assert len(asked) == 4


def test_it_goes_back_when_nothing_is_left_for_it(machine: Machine) -> None:
    manners = Courtesy(may_idle=True)
    machine.passes(ran_s=1, waited_s=0)
    manners.look()
    machine.passes(ran_s=0.01, waited_s=1)
    manners.look()
    machine.passes(ran_s=1, waited_s=0)
    manners.look()
    assert machine.policies == [os.SCHED_IDLE, os.SCHED_OTHER]


def test_a_process_that_may_not_rise_again_says_so(machine: Machine) -> None:
    manners = Courtesy(may_idle=True)
    machine.passes(ran_s=1, waited_s=0)
    manners.look()
    machine.may_rise = False
    machine.passes(ran_s=0.01, waited_s=1)
    with pytest.raises(Starving):
        manners.look()


def test_it_never_idles_if_it_may_not_or_cannot_tell(machine: Machine, tmp_path: Path) -> None:
    insistent, blind = Courtesy(may_idle=False), Courtesy(may_idle=True)
    machine.passes(ran_s=1, waited_s=0)
    insistent.look()
    (tmp_path / "schedstat").unlink()
    blind.look()
    assert machine.policies == []


def test_a_real_process_with_time_to_spare_becomes_idle() -> None:
    """Pretending that it never waits, for the machine that runs the tests may be busy."""
    code = (
        "import os, time\n"
        "from ruslo.storage.cleaner import courtesy\n"
        "courtesy._times_ns = lambda: (time.process_time_ns() * 1000, 0)\n"
        "manners = courtesy.Courtesy(may_idle=True)\n"
        "while os.sched_getscheduler(0) != os.SCHED_IDLE: manners.look()\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(found.stdout) >= 5
