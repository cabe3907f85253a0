from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from ruslo.testing import EmbeddedBroker
from tests.support.console.console import ConsoleProcess, Visitor
from tests.support.tools.programs import require_tool

expect.set_options(timeout=60_000)  # on a busy machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, not one that playwright would download.

    It is started per module: while playwright runs, its event loop prevents asyncio.run in this thread.
    """
    path = require_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"broker.rack": "zone-a"}) as broker:
        yield broker


@pytest.fixture(scope="session")
def console(broker: EmbeddedBroker) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(broker.bootstrap) as console:
        yield console


@pytest.fixture
def visitor(browser: Browser, console: ConsoleProcess) -> Iterator[Visitor]:
    """Fail a test if the browser logs an error or blocks a script or style."""
    visitor = Visitor(browser, console.address)
    yield visitor
    visitor.close()
    assert visitor.complaints == []
