from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Coroutine

import pytest
import uvloop

from ruslo.broker.node.abandoned_lookups import forget_abandoned_lookups


async def _abandon_future(error: Exception) -> None:
    forget_abandoned_lookups(asyncio.get_running_loop())
    asyncio.get_running_loop().create_future().set_exception(error)
    gc.collect()


async def _abandon_task(error: Exception) -> None:
    async def fail() -> None:
        raise error

    forget_abandoned_lookups(asyncio.get_running_loop())
    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()


def _run(scenario: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario)


def test_abandoned_lookup_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    _run(_abandon_future(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")))
    assert not caplog.records


def test_other_unretrieved_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    _run(_abandon_future(OSError("a disk")))
    _run(_abandon_task(socket.gaierror(socket.EAI_AGAIN, "inside a task")))
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "a disk",
        f"[Errno {socket.EAI_AGAIN}] inside a task",
    ]
