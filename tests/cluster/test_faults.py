"""Three nodes, and five, under load of every kind while processes, networks and disks fail.

In the short form one cluster gets all faults and is checked at the end. The long form
(`make soak-cluster`) sets RUSLO_FAULT to one fault, which is repeated until RUSLO_FAULT_RECORDS are
acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.faults.cluster import fault_cluster
from tests.support.faults.load import fault_load
from tests.support.faults.schedule import FAULTS, HOST_FAULTS, FaultRun

CHOSEN = os.environ.get("RUSLO_FAULT", "")
TOTAL = int(os.environ.get("RUSLO_FAULT_RECORDS", "0"))
NODES = int(os.environ.get("RUSLO_FAULT_NODES", "3"))
SILENCE_S = float(os.environ.get("RUSLO_FAULT_SILENCE_S", "4"))
RECORDS = max(300, TOTAL // 100)
PAUSE_S = 0.001 if TOTAL > 100_000 else 0.004
"""The interval between records: a million records take about ten rounds of a fault."""
SIMILAR_FAULTS = ("isolate-controller", "block-packets-to-leader", "kill-minority")
"""Slow faults that resemble another one; a minority of three nodes is the controller alone."""
THREE_NODE_FAULTS = tuple(name for name in FAULTS if name not in SIMILAR_FAULTS)
FIVE_NODE_FAULTS = ("kill-minority", "reassign-replicas")
"""Faults that differ between five nodes and three."""


def run_faults(directory: Path, nodes: int, faults: Sequence[str]) -> None:
    with (
        fault_cluster(directory / "nodes", nodes) as cluster,
        fault_load(cluster, directory, pause_s=PAUSE_S) as load,
    ):
        run = FaultRun(cluster, load, RECORDS, SILENCE_S)
        skipped = [] if cluster.has_hosts else [name for name in faults if name in HOST_FAULTS]
        rounds = 0
        while not rounds or load.producer.count() < TOTAL:
            rounds += 1
            for name in faults:
                if name not in skipped:
                    load.producer.forget_stalls()
                    FAULTS[name](run)
                    assert load.producer.failed == []
                    print(f"{name}: longest stall {load.producer.longest_stall_s():.2f} s", flush=True)
        print(f"{rounds} rounds; {load.check()}")
    if skipped:
        pytest.skip(f"passed without {', '.join(skipped)}: network namespaces are not permitted here")


@pytest.mark.skipif(bool(CHOSEN), reason="one fault is chosen")
@pytest.mark.timeout(300)
def test_three_nodes_keep_their_guarantees(tmp_path: Path) -> None:
    run_faults(tmp_path, 3, THREE_NODE_FAULTS)


@pytest.mark.skipif(bool(CHOSEN), reason="one fault is chosen")
@pytest.mark.timeout(300)
def test_five_nodes_keep_their_guarantees(tmp_path: Path) -> None:
    run_faults(tmp_path, 5, FIVE_NODE_FAULTS)


@pytest.mark.skipif(not CHOSEN, reason="the long form: make soak-cluster FAULT=…")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("fault", list(FAULTS) if CHOSEN == "all" else [CHOSEN])
def test_one_fault_repeatedly(tmp_path: Path, fault: str) -> None:
    assert fault in FAULTS, f"Unknown fault {fault!r}. Set RUSLO_FAULT to one of {', '.join(FAULTS)}"
    run_faults(tmp_path, NODES, [fault])
