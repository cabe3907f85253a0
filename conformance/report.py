"""Write docs/conformance.md from the last outcome of each test and the expected failures.

``python -m conformance.report`` writes the page, ``--check`` fails if it is out of date.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.expectations import KINDS, Expectations
from conformance.outcomes import Outcome
from conformance.test_sets import SETS, class_of, selectors_of

FOLDER = Path(__file__).resolve().parent
RESULTS_FILE = FOLDER / "results.tsv"
"""The status of each test in the last run that contained it."""
PAGE = FOLDER.parent / "docs" / "conformance.md"
PASSED, UNEXPECTED = "passed", "unexpected failure"
COLUMNS = {
    PASSED: PASSED,
    "differs": "differs",
    "unsupported": "not supported yet",
    "defect": "defect",
    UNEXPECTED: UNEXPECTED,
    "not portable": "not portable",
}

Statuses = dict[str, str]


def record(outcomes: Mapping[str, Outcome], selectors: Sequence[str], file: Path = RESULTS_FILE) -> None:
    """Keep the status of each test, in place of those of an earlier run of the same selectors."""
    whole_classes = {selector for selector in selectors if "#" not in selector}
    statuses = {
        test: status for test, status in read_statuses(file).items() if class_of(test) not in whole_classes
    }
    statuses |= {test: outcome.status for test, outcome in outcomes.items() if outcome.status != "skipped"}
    file.write_text("".join(f"{test}\t{status}\n" for test, status in sorted(statuses.items())))


def read_statuses(file: Path = RESULTS_FILE) -> Statuses:
    if not file.exists():
        return {}
    return dict(line.split("\t") for line in file.read_text().splitlines())


def count(statuses: Mapping[str, str], expectations: Expectations) -> dict[str, int]:
    """The number of tests by column of the page."""
    counts: Counter[str] = Counter()
    for test, status in statuses.items():
        expectation = expectations.of(test)
        counts[PASSED if status == PASSED else expectation.kind if expectation else UNEXPECTED] += 1
    return {column: counts[column] for column in COLUMNS}


def page() -> str:
    statuses, expectations = read_statuses(), Expectations.read()
    return (
        "\n\n".join(
            [
                "# Conformance",
                _INTRODUCTION,
                _table(statuses, expectations),
                _AFTER_TABLE,
                *_lists(statuses, expectations),
            ]
        )
        + "\n"
    )


_INTRODUCTION = """\
<!-- Written by `python -m conformance.report`; do not edit. -->

Apache Kafka's own integration tests are the conformance suite of Ruslo. `make conformance` downloads the test
jars of Apache Kafka 4.3.1 from Maven Central and runs its `@ClusterTest`s, unmodified. Each test gets a
cluster of Ruslo processes in place of Apache Kafka's, with the properties, features, listeners and log-ins
that it asks for.

A test with several invocations (one for each group protocol, for example) counts once, by its worst one.
Tests that run with combined and with separate controllers run with separate ones (`--all-types` runs both).
Tests that pass without a cluster, and tests that Apache Kafka disables, do not count."""

_AFTER_TABLE = """\
`make conformance ARGS="tools"` runs one set, `ARGS="--target kafka"` runs the same tests against Apache Kafka
itself. The command fails if a test fails that is not listed below, or if a listed one passes.
[The folder](../conformance/README.md) tells how it works."""


def _table(statuses: Statuses, expectations: Expectations) -> str:
    rows = [["set", "contains", "classes", "tests", *COLUMNS.values()]]
    total: Counter[str] = Counter()
    for name, contents in SETS.items():
        classes = {class_of(selector) for selector in selectors_of(name)}
        of_set = {test: status for test, status in statuses.items() if class_of(test) in classes}
        ran = len({class_of(test) for test in of_set})
        ran_text = str(ran) if ran == len(classes) else f"{ran} of {len(classes)} ran"
        counts = count(of_set, expectations)
        total.update(counts)
        rows.append([name, contents, ran_text, *_numbers(counts)])
    rows.append(["all", "", "", *_numbers(total)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]])


def _numbers(counts: Mapping[str, int]) -> list[str]:
    return [str(sum(counts.values())), *(str(counts[column]) for column in COLUMNS)]


def _lists(statuses: Statuses, expectations: Expectations) -> list[str]:
    """A list for each kind, with the tests of one reason together; only of classes that have run."""
    ran = {class_of(test) for test in statuses}
    sections = []
    for kind, meaning in KINDS.items():
        by_reason: dict[str, list[str]] = {}
        for test, expectation in sorted(expectations.items()):
            if expectation.kind == kind and class_of(test) in ran:
                name = test.rpartition(".")[2].replace("#*", " (whole class)").replace("#", ".")
                often = " (sometimes)" if expectation.frequency == "sometimes" else ""
                by_reason.setdefault(expectation.reason, []).append(f"`{name}`{often}")
        if by_reason:
            rows = [f"| {reason} | {', '.join(tests)} |" for reason, tests in sorted(by_reason.items())]
            table = "\n".join(["| reason | tests |", "| --- | --- |", *rows])
            sections += [f"## {COLUMNS[kind].capitalize()}", f"{meaning[0].upper()}{meaning[1:]}.", table]
    return sections


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
        return 0
    if PAGE.exists() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE.name} is out of date. Run `make generate`.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
