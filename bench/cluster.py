"""`make bench-cluster`: three nodes of Ruslo, then of Apache Kafka, under load and with faults."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench.cluster_faults import kill_9, kill_controller, rolling_restart
from bench.cluster_load import latency, produce
from bench.cluster_report import ROWS, markdown_page
from bench.cluster_setting import CLUSTERS, ClusterSetting
from bench.session import OUTPUT, ROOT, Benchmark, run
from bench.setting import Conditions, Figures

SCENARIOS: dict[str, Callable[[ClusterSetting], Figures]] = {
    "produce": produce,
    "latency": latency,
    "kill-9": kill_9,
    "controller": kill_controller,
    "rolling-restart": rolling_restart,
}


def measure(scenario: str, contender: str, conditions: Conditions) -> Figures:
    return SCENARIOS[scenario](ClusterSetting.under(conditions, CLUSTERS[contender]))


BENCHMARK = Benchmark(
    command="make bench-cluster",
    purpose="Run three nodes of Ruslo, then of Apache Kafka, under load and with faults.",
    scenarios=list(SCENARIOS),
    contenders=list(CLUSTERS),
    measure=measure,
    rows=ROWS,
    results_file=OUTPUT / "cluster-results.json",
    docs_page=ROOT / "docs" / "benchmarks-cluster.md",
    markdown_page=markdown_page,
    warm_gb=3,
    quick_warm_gb=1,
)

if __name__ == "__main__":
    raise SystemExit(run(BENCHMARK, sys.argv[1:]))
