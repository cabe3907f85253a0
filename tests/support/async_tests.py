"""Runs ``async def`` tests on the event loop that the broker uses in production.

``@pytest.mark.stdlib_loop`` runs a test on asyncio's own loop, whose callbacks are Python functions.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest
import uvloop

TIMEOUT_S = 60
"""A test that waits in vain fails at this limit. pytest's own limit would end the whole worker."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "stdlib_loop: run an async test on asyncio's own event loop")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await pyfuncitem.obj(**arguments)

    on_stdlib_loop = pyfuncitem.get_closest_marker("stdlib_loop") is not None
    factory = asyncio.new_event_loop if on_stdlib_loop else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(bounded())
    return True
