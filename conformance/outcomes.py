"""What became of each test, from the lines that `ResultListener.java` writes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from conformance.jars import Target

Status = Literal["failed", "not portable", "passed", "skipped"]

_WORST_FIRST: tuple[Status, ...] = ("failed", "not portable", "passed", "skipped")
_ABORTED = "TestAbortedException: "
NOT_PORTABLE = "not portable: "
_REPEATED = "repeated: "
_WITH_CLUSTER = "Type=Raft-"


class Outcome(NamedTuple):
    status: Status
    reason: str


def read_outcomes(files: Iterable[Path], target: Target) -> dict[str, Outcome]:
    """The outcome of each test, `CLASS#METHOD`: the worst one of its invocations.

    Tests that pass without a cluster prove nothing here and are left out.
    """
    outcomes: dict[str, Outcome] = {}
    for file in files:
        if not file.exists():
            continue
        for line in file.read_text(errors="replace").splitlines():
            owner, method, invocation, status, _duration, reason = line.split("\t")
            outcome = _outcome(status, reason, with_cluster=_WITH_CLUSTER in invocation)
            if outcome is None:
                continue
            test = f"{owner}#{method}"
            if test not in outcomes or _rank(outcome) < _rank(outcomes[test]):
                outcomes[test] = outcome
    return outcomes


def _rank(outcome: Outcome) -> int:
    return _WORST_FIRST.index(outcome.status)


def _outcome(status: str, reason: str, *, with_cluster: bool) -> Outcome | None:
    cause = reason.partition(_ABORTED)[2] or reason
    if cause.startswith(_REPEATED):
        return None
    # A test that repeats a check until it holds reports the abortion as the reason of its own failure.
    if cause.startswith(NOT_PORTABLE):
        return Outcome("not portable", cause.removeprefix(NOT_PORTABLE).partition(" <- ")[0])
    if status == "SUCCESSFUL":
        return Outcome("passed", "") if with_cluster else None
    return Outcome("failed" if status == "FAILED" else "skipped", reason)
