"""A group member that copies a topic to another exactly once, in its own process, which tests kill."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from confluent_kafka import KafkaException

from tests.support.clients.librdkafka import Settings
from tests.support.txns.transactional_clients import Copier

TRANSACTION_TIMEOUT_MS = 5000
RECORDS_PER_TRANSACTION = 20


def start_worker(
    bootstrap: str, source: str, target: str, group: str, transactional_id: str, settings: Settings
) -> subprocess.Popen[bytes]:
    """``settings``: additional settings of the consumer."""
    module = [sys.executable, "-m", "tests.support.txns.transactional_worker"]
    pairs = [f"{key}={value}" for key, value in settings.items()]
    root = Path(__file__).resolve().parents[3]
    return subprocess.Popen([*module, bootstrap, source, target, group, transactional_id, *pairs], cwd=root)


def main(*arguments: str) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    bootstrap, source, target, group, transactional_id, *pairs = arguments
    copier = Copier(
        bootstrap,
        source,
        target,
        group,
        transactional_id,
        consumer_settings=dict(pair.split("=", 1) for pair in pairs),
        producer_settings={"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS},
    )
    while not stopping.is_set():
        try:
            copier.step(RECORDS_PER_TRANSACTION)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            copier.abort()
    copier.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
