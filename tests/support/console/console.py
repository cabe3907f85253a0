"""The console as a process, and a browser session."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from playwright.sync_api import Browser, BrowserContext, Page

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.librdkafka.producer import Producer
from ruslo.client.settings.setting import ConfigValue

START_TIMEOUT_S = 30
T = TypeVar("T")


def run_admin(bootstrap: str, action: Callable[[Admin], Awaitable[T]]) -> T:
    """Run an admin call in a thread: playwright has an event loop in this one."""

    async def run() -> T:
        async with Admin(bootstrap) as admin:
            return await action(admin)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(run())).result()


def make_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic; ``max_message_bytes="5"`` sets max.message.bytes."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    run_admin(bootstrap, lambda admin: admin.topics.create([NewTopic(name, partitions, configs=settings)]))


def new_producer(bootstrap: str, **settings: ConfigValue) -> Producer:
    common: dict[str, ConfigValue] = {"bootstrap.servers": bootstrap, "log_level": 2}
    return Producer(common | {key.replace("_", "."): value for key, value in settings.items()})


class ConsoleProcess:
    """``ruslo console`` on a free port; it must log nothing."""

    def __init__(self, bootstrap: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "ruslo.cli",
                "console",
                "-b",
                bootstrap,
                "--port",
                "0",
                "-o",
                "json",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | dict(environment or {}),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, errors = self._process.communicate(timeout=START_TIMEOUT_S)
            raise RuntimeError(f"the console did not start:\n{errors}")
        self.address: str = json.loads(line)["address"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        _, errors = self._process.communicate(timeout=START_TIMEOUT_S)
        if kind is None:
            assert errors == "", "a healthy console logs nothing"


class Visitor:
    """A page in a new browser session; its errors are collected."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.address = address
        self.context: BrowserContext = browser.new_context(base_url=address, **options)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.set_default_timeout(20_000)

    def _note(self, kind: str, text: str) -> None:
        # Browsers report every error response; tests provoke those.
        if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
            self.complaints.append(f"{kind}: {text}")

    def open(self, path: str) -> Page:
        self.page.goto(path)
        return self.page

    def close(self) -> None:
        self.context.close()


def found_links(visitor: Visitor, pages: Iterable[str]) -> set[str]:
    """The console's own links on these pages."""
    found: set[str] = set()
    for path in pages:
        links = visitor.open(path).locator("a[href^='/']")
        found |= set(links.evaluate_all("links => links.map(link => link.pathname + link.search)"))
    return found


def failed_links(visitor: Visitor, paths: Iterable[str]) -> dict[str, int]:
    """The links whose response is not 200, with its status."""
    statuses = {path: visitor.page.request.get(path).status for path in sorted(paths)}
    return {path: status for path, status in statuses.items() if status != 200}
