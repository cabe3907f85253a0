"""Transactional producers and consumers in their own processes; they and the broker are killed at random.

RUSLO_CHAOS_SECONDS sets the duration; `make soak` runs for minutes.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ruslo.testing.histories.workload.settings import WorkloadSettings
from ruslo.testing.histories.workload.workload import Workload
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode

CHAOS_S = float(os.environ.get("RUSLO_CHAOS_SECONDS", "15"))


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    system = ApacheKafka if request.config.getoption("--target") == "kafka" else RusloNode
    with system(tmp_path / "node") as node:
        yield node


def test_histories_have_no_anomaly_when_clients_and_brokers_are_killed(node: Node, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    restarts = 0
    settings = WorkloadSettings(
        bootstrap=node.bootstrap,
        folder=str(tmp_path / "history"),
        topic="list",
        partitions=4,
        keys=3,
        transaction_timeout_ms=5_000,
    )
    with Workload(settings, seed=seed) as workload:
        end = time.monotonic() + CHAOS_S
        while time.monotonic() < end or not restarts:
            time.sleep(source.uniform(0.1, 1.2))
            if source.random() < 0.35:
                node.kill()
                time.sleep(source.uniform(0, 0.3))
                node.start()
                restarts += 1
            else:
                workload.inject_fault()
            workload.restart_writers()
        verdict = workload.audit()
    print(f"\n{restarts} restarts, {workload.kills} writers killed, {workload.zombies} zombies, {verdict}")
    assert verdict.valid, f"seed {seed}: {verdict}"
    assert not verdict.unproven
    assert verdict.transactions["committed"]
    assert verdict.transactions["aborted"]
    assert verdict.elements_read
