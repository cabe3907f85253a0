"""`make conformance`: run Apache Kafka's integration tests against Ruslo and compare with `expected.tsv`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from conformance.expectations import Expectations, Surprise
from conformance.outcomes import Outcome, read_outcomes
from conformance.port_ranges import MAX_WORKERS
from conformance.report import PAGE, page, record
from conformance.test_sets import SETS, SMOKE, selectors_of
from conformance.workers import Session, run_tests

OUTPUT = Path(__file__).resolve().parent.parent / "build" / "conformance"


def run_set(name: str, session: Session) -> tuple[dict[str, Outcome], list[Surprise]]:
    """Run one set or selector; returns the outcomes, and those that are not as expected."""
    selectors = selectors_of(name)
    outcomes = read_outcomes(run_tests(session, selectors), session.target)
    if session.target == "kafka":
        failed = [(test, outcome) for test, outcome in sorted(outcomes.items()) if outcome.status == "failed"]
        return outcomes, [Surprise(test, f"failed: {outcome.reason}") for test, outcome in failed]
    return outcomes, Expectations.read().surprises(outcomes, selectors)


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    surprises: list[Surprise] = []
    for name in options.tests or SETS:
        start = time.monotonic()
        folder = OUTPUT / options.target / name.replace("#", "-")
        shutil.rmtree(folder, ignore_errors=True)
        session = Session(options.target, folder, options.jobs, options.timeout, options.all_types)
        outcomes, found = run_set(name, session)
        if options.accept and options.target == "ruslo":
            expectations = Expectations.read()
            expectations.accept(outcomes)
            expectations.write()
        if options.target == "ruslo":
            record(outcomes, selectors_of(name))
            PAGE.write_text(page())
        surprises += found
        _say(name, outcomes, found, time.monotonic() - start)
    if surprises:
        print(f"\n{len(surprises)} outcomes are not as expected. {OUTPUT} has logs and files of clusters.")
    return 1 if surprises else 0


def _say(name: str, outcomes: dict[str, Outcome], surprises: Sequence[Surprise], seconds: float) -> None:
    counts = Counter(outcome.status for outcome in outcomes.values())
    listed = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    print(f"conformance: {name} ({seconds:.0f} s): {listed or 'no tests'}", flush=True)
    for surprise in surprises:
        print(f"  {surprise.test} {surprise.problem}", flush=True)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make conformance ARGS=", description="Run Apache Kafka's integration tests against Ruslo."
    )
    parser.add_argument(
        "tests",
        nargs="*",
        metavar="TEST",
        help=f"A set ({', '.join((*SETS, SMOKE))}), CLASS or CLASS#METHOD (default: all sets but {SMOKE}).",
    )
    parser.add_argument(
        "--target",
        choices=["ruslo", "kafka"],
        default="ruslo",
        help="Run against Apache Kafka itself, as control.",
    )
    parser.add_argument(
        "--jobs", type=int, choices=range(1, MAX_WORKERS + 1), default=1, help="JVMs at a time (default: 1)."
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=180,
        metavar="S",
        help="Fail a test after this many seconds (default: 180).",
    )
    parser.add_argument(
        "--all-types",
        action="store_true",
        help="Run tests that accept combined and separate controllers with both (default: separate only).",
    )
    parser.add_argument(
        "--accept", action="store_true", help="Write the outcomes to conformance/expected.tsv, for review."
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
