"""The brokers of a page's blocks. Each page has its own, so pages do not affect each other."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

from ruslo.testing import EmbeddedBroker
from tests.docs.blocks import Block, Page
from tests.support.network.ports import free_port

NOWHERE = "127.0.0.1:9"
_PROGRAMS = {"python", "java", "go", "console"}


@contextlib.contextmanager
def brokers_for(page: Page) -> Iterator[tuple[str, str]]:
    """Addresses for clients and for Prometheus; no broker is started for a page without blocks to run."""
    if not any(_may_talk(block) for block in page.blocks):
        yield NOWHERE, NOWHERE
    elif page.brokers > 1:
        with dev_cluster(page.brokers) as bootstrap:
            yield bootstrap, NOWHERE
    else:
        metrics = f"127.0.0.1:{free_port()}"
        with EmbeddedBroker({"ruslo.metrics.listener": metrics}) as broker:
            yield broker.bootstrap, metrics


def _may_talk(block: Block) -> bool:
    return block.language in _PROGRAMS and not (block.not_run or block.checked_only)


@contextlib.contextmanager
def dev_cluster(brokers: int) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ruslo.cli", "dev", "--port", "0", "--brokers", str(brokers)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("bootstrap.servers="), line
        yield line.strip().partition("=")[2]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
