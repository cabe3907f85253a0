"""One run of a benchmark: every contender in every scenario, then a table and, on request, the docs page."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import build_load_program
from bench.measure import GB
from bench.setting import Conditions, Figures
from bench.table import Results, Row, plain_table

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "bench"
BUSY_LOAD_AVERAGE = 0.7


@dataclass(frozen=True)
class Benchmark:
    command: str
    """The command without arguments."""
    purpose: str
    scenarios: Sequence[str]
    contenders: Sequence[str]
    measure: Callable[[str, str, Conditions], Figures | None]
    """The function that runs a scenario on a contender; None if the contender does not take part."""
    rows: Sequence[Row]
    results_file: Path
    docs_page: Path
    markdown_page: Callable[[Results, str, float], str]
    """Renders the docs page from results, command and load average."""
    warm_gb: float
    quick_warm_gb: float


def run(benchmark: Benchmark, arguments: Sequence[str]) -> int:
    options = _parse(benchmark, arguments)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    options.dir.mkdir(parents=True, exist_ok=True)
    program = build_load_program(OUTPUT)

    load_average = os.getloadavg()[0]
    if load_average > BUSY_LOAD_AVERAGE:
        say(f"the load average is {load_average:.1f}: other processes on this machine distort the figures")
    results: Results = json.loads(options.merge.read_text()) if options.merge else {}
    warm_gb = options.warm_gb
    if warm_gb is None:
        warm_gb = benchmark.quick_warm_gb if options.quick else benchmark.warm_gb
    for scenario in options.only or benchmark.scenarios:
        for contender in options.broker or benchmark.contenders:
            conditions = Conditions(
                program, options.dir / contender, 10 if options.quick else 1, int(warm_gb * GB)
            )
            start = time.monotonic()
            figures = benchmark.measure(scenario, contender, conditions)
            if figures is None:
                continue
            results.setdefault(contender, {})[scenario] = figures
            benchmark.results_file.write_text(json.dumps(results, indent=2) + "\n")
            listed = ", ".join(f"{name} {value:,.3f}" for name, value in figures.items())
            say(f"{scenario} on {contender} ({time.monotonic() - start:.0f} s): {listed}")
    shutil.rmtree(options.dir)

    print(f"\n{plain_table(results, benchmark.rows)}")
    if options.write_docs:
        benchmark.docs_page.parent.mkdir(exist_ok=True)
        command = f'{benchmark.command} ARGS="{" ".join(arguments)}"'
        benchmark.docs_page.write_text(benchmark.markdown_page(results, command, load_average))
        say(f"wrote {benchmark.docs_page.relative_to(ROOT)}")
    return 0


def _parse(benchmark: Benchmark, arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"{benchmark.command} ARGS=", description=benchmark.purpose)
    parser.add_argument(
        "--only", action="append", choices=benchmark.scenarios, help="Run this scenario only; repeatable."
    )
    parser.add_argument(
        "--broker", action="append", choices=benchmark.contenders, help="Run this contender only; repeatable."
    )
    parser.add_argument("--quick", action="store_true", help="Do a tenth of the work.")
    parser.add_argument(
        "--warm-gb",
        type=float,
        help=f"Gigabytes of memory to touch before each load (default {benchmark.warm_gb:g}, quick: "
        f"{benchmark.quick_warm_gb:g})",
    )
    parser.add_argument(
        "--dir", type=Path, default=OUTPUT / "data", help="Directory for the data of the brokers."
    )
    parser.add_argument("--merge", type=Path, help="JSON file with figures that this run does not measure.")
    page = benchmark.docs_page.relative_to(ROOT)
    parser.add_argument("--write-docs", action="store_true", help=f"Write {page} from the figures.")
    return parser.parse_args(arguments)


def say(text: str) -> None:
    print(f"bench: {text}", flush=True)
