"""`make bench`: run Ruslo and Apache Kafka in turn on this machine and print how they compare."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from bench.contenders import CONTENDERS, build_load_program
from bench.measure import GB
from bench.report import Results, markdown_page, plain_table
from bench.scenarios import CEILING_SCENARIOS, SCENARIOS
from bench.setting import Setting

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "bench"
RESULTS_FILE = OUTPUT / "results.json"
DOCS_PAGE = ROOT / "docs" / "benchmarks.md"
BUSY_LOAD_AVERAGE = 0.7


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="a scenario to run; repeatable")
    parser.add_argument("--broker", action="append", choices=CONTENDERS, help="who is to run (all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records: minutes become seconds")
    parser.add_argument(
        "--warm-gb", type=float, help="how much memory to touch before each load (default 8, quick: 2)"
    )
    parser.add_argument("--dir", type=Path, default=OUTPUT / "data", help="where the brokers keep their data")
    parser.add_argument("--merge", type=Path, help="JSON file for figures not measured now")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md from the figures")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    scenarios = options.only or list(SCENARIOS)
    brokers = options.broker or list(CONTENDERS)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    options.dir.mkdir(parents=True, exist_ok=True)
    program = build_load_program(OUTPUT)

    load_average = os.getloadavg()[0]
    if load_average > BUSY_LOAD_AVERAGE:
        say(f"the load average is {load_average:.1f}: other work on this machine disturbs the figures")
    results: Results = json.loads(options.merge.read_text()) if options.merge else {}
    warm_gb = options.warm_gb if options.warm_gb is not None else (2 if options.quick else 8)
    for scenario in scenarios:
        for broker in brokers:
            if broker == "ceiling" and scenario not in CEILING_SCENARIOS:
                continue
            setting = Setting(
                program,
                options.dir / broker,
                10 if options.quick else 1,
                CONTENDERS[broker],
                int(warm_gb * GB),
            )
            start = time.monotonic()
            figures = SCENARIOS[scenario](setting)
            results.setdefault(broker, {})[scenario] = figures
            RESULTS_FILE.write_text(json.dumps(results, indent=2) + "\n")
            listed = ", ".join(f"{name} {value:,.3f}" for name, value in figures.items())
            say(f"{scenario} on {broker} ({time.monotonic() - start:.0f} s): {listed}")
    shutil.rmtree(options.dir)

    print(f"\n{plain_table(results)}")
    if options.write_docs:
        DOCS_PAGE.parent.mkdir(exist_ok=True)
        command = f'make bench ARGS="{" ".join(arguments)}"'
        DOCS_PAGE.write_text(markdown_page(results, command, load_average))
        say(f"wrote {DOCS_PAGE.relative_to(ROOT)}")
    return 0


def say(text: str) -> None:
    print(f"bench: {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
