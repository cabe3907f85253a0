"""The console as its users run it, and a browser that looks at it."""

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


def asked(bootstrap: str, action: Callable[[Admin], Awaitable[T]]) -> T:
    """What an admin client answers; in a thread, because playwright has an event loop in this one."""

    async def run() -> T:
        async with Admin(bootstrap) as admin:
            return await action(admin)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(run())).result()


def make_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """``max_message_bytes="5"`` is the setting max.message.bytes."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    asked(bootstrap, lambda admin: admin.topics.create([NewTopic(name, partitions, configs=settings)]))


def new_producer(bootstrap: str, **settings: ConfigValue) -> Producer:
    common: dict[str, ConfigValue] = {"bootstrap.servers": bootstrap, "log_level": 2}
    return Producer(common | {key.replace("_", "."): value for key, value in settings.items()})


class ConsoleProcess:
    """``ruslo console`` on a free port; everything it printed is checked when it stops."""

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
            assert errors == "", "the console logs nothing when all is well"


class Visitor:
    """A page of a fresh browser session; whatever goes wrong in it is kept."""

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
        # A browser complains of every answer that is an error; those are asked for.
        if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
            self.complaints.append(f"{kind}: {text}")

    def open(self, path: str) -> Page:
        self.page.goto(path)
        return self.page

    def close(self) -> None:
        self.context.close()


def found_links(visitor: Visitor, pages: Iterable[str]) -> set[str]:
    """Where the links of these pages lead within the console, each once."""
    found: set[str] = set()
    for path in pages:
        links = visitor.open(path).locator("a[href^='/']")
        found |= set(links.evaluate_all("links => links.map(link => link.pathname + link.search)"))
    return found


def refused(visitor: Visitor, paths: Iterable[str]) -> dict[str, int]:
    """Those that do not answer with a page or a file, and what they answer instead."""
    statuses = {path: visitor.page.request.get(path).status for path in sorted(paths)}
    return {path: status for path, status in statuses.items() if status != 200}
