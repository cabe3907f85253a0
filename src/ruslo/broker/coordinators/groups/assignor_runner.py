"""Runs assignors that must not run in the machine: those of users, and those that need lags.

Each assignor has one thread at a time, and a timeout. A thread cannot be stopped: while an overdue call runs,
further calls of its assignor fail at once, so an assignor that hangs costs one thread and does not affect
groups of other assignors. The thread shares the interpreter with the event loop; it slows the broker down,
as any busy thread does, but cannot block it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping

from ruslo.machines.assignors.check import checked
from ruslo.machines.assignors.spec import Assignor, AssignorError, GroupSpec
from ruslo.machines.groups.consumer.ports import AssignorFailure, AssignorResult


class AssignorRunner:
    def __init__(self, assignors: Mapping[str, Assignor], timeout_ms: int) -> None:
        self._assignors = assignors
        self._timeout_ms = timeout_ms
        self._locks: dict[str, asyncio.Lock] = {}
        self._overdue: dict[str, asyncio.Future[AssignorResult]] = {}

    def needs_lag(self, name: str) -> bool:
        assignor = self._assignors.get(name)
        return assignor is not None and assignor.needs_lag

    async def run(self, name: str, group: GroupSpec) -> AssignorResult:
        assignor = self._assignors.get(name)
        if assignor is None:
            return AssignorFailure(name, "is not among this broker's group.consumer.assignors")
        async with self._locks.setdefault(name, asyncio.Lock()):
            overdue = self._overdue.get(name)
            if overdue is not None and not overdue.done():
                return AssignorFailure(
                    name, f"is still busy with an earlier call, for more than {self._timeout_ms} ms"
                )
            result: asyncio.Future[AssignorResult] = asyncio.get_running_loop().create_future()
            threading.Thread(
                target=_assign, args=(assignor, group, result), name=f"assignor-{name}", daemon=True
            ).start()
            done, _ = await asyncio.wait([result], timeout=self._timeout_ms / 1000)
            if done:
                return result.result()
            self._overdue[name] = result
            return AssignorFailure(
                name, f"did not finish within {self._timeout_ms} ms (ruslo.group.assignor.timeout.ms)"
            )


def _assign(assignor: Assignor, group: GroupSpec, result: asyncio.Future[AssignorResult]) -> None:
    """Runs in the thread."""
    outcome: AssignorResult
    try:
        outcome = checked(group, assignor.assign(group))
    except AssignorError as error:
        outcome = AssignorFailure(assignor.name, str(error))
    except BaseException as error:  # also SystemExit: it is the user's code
        outcome = AssignorFailure(assignor.name, f"raised {type(error).__name__}: {error}")
    with contextlib.suppress(RuntimeError):  # the event loop is closed: the node has stopped
        result.get_loop().call_soon_threadsafe(_complete, result, outcome)


def _complete(result: asyncio.Future[AssignorResult], outcome: AssignorResult) -> None:
    if not result.done():
        result.set_result(outcome)
