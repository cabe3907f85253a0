"""`make bench`: run Ruslo and Apache Kafka one after the other on this machine and compare them."""

from __future__ import annotations

import sys

from bench.contenders import CONTENDERS
from bench.report import ROWS, markdown_page
from bench.scenarios import CEILING_SCENARIOS, SCENARIOS
from bench.session import OUTPUT, ROOT, Benchmark, run
from bench.setting import Conditions, Figures, Setting


def measure(scenario: str, contender: str, conditions: Conditions) -> Figures | None:
    if contender == "ceiling" and scenario not in CEILING_SCENARIOS:
        return None
    return SCENARIOS[scenario](Setting.under(conditions, CONTENDERS[contender]))


BENCHMARK = Benchmark(
    command="make bench",
    purpose="Run Ruslo and Apache Kafka in turn on this machine and print how they compare.",
    scenarios=list(SCENARIOS),
    contenders=list(CONTENDERS),
    measure=measure,
    rows=ROWS,
    results_file=OUTPUT / "results.json",
    docs_page=ROOT / "docs" / "benchmarks.md",
    markdown_page=markdown_page,
    warm_gb=8,
    quick_warm_gb=2,
)

if __name__ == "__main__":
    raise SystemExit(run(BENCHMARK, sys.argv[1:]))
