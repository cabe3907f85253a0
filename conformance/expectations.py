"""`expected.tsv`: the tests that do not pass, each with the reason.

A line has four fields, separated by tabs: `CLASS#METHOD`, the kind, how often it fails, and the reason.
`CLASS#*` stands for all tests of a class, which then may fail or pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.outcomes import Outcome
from conformance.test_sets import by_class

EXPECTED_FILE = Path(__file__).resolve().parent / "expected.tsv"
KINDS = {
    "defect": "Ruslo behaves differently, and should not",
    "differs": "the protocol leaves it open (words of a message, an order, a moment), or it is documented",
    "unsupported": "not supported yet",
    "not portable": "needs Java classes in the broker, or objects of Kafka's own broker",
}
FREQUENCIES = ("always", "sometimes")
ALL_TESTS = "*"


class Expectation(NamedTuple):
    kind: str
    frequency: str
    reason: str


class Surprise(NamedTuple):
    """A test whose outcome is not the expected one."""

    test: str
    problem: str


class Expectations:
    def __init__(self, lines: Mapping[str, Expectation]) -> None:
        self._lines = dict(lines)

    @classmethod
    def read(cls, file: Path = EXPECTED_FILE) -> Expectations:
        lines: dict[str, Expectation] = {}
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if not line or line.startswith("#"):
                continue
            fields = line.split("\t")
            if (
                len(fields) != 4
                or fields[1] not in KINDS
                or fields[2] not in FREQUENCIES
                or fields[0] in lines
            ):
                raise ValueError(
                    f"{file.name}:{number}: write a test that no other line names, one of "
                    f"{', '.join(KINDS)}, one of {', '.join(FREQUENCIES)}, and a reason, separated by tabs"
                )
            lines[fields[0]] = Expectation(*fields[1:])
        return cls(lines)

    def write(self, file: Path = EXPECTED_FILE) -> None:
        """Sorted by kind and test; comments at the beginning of the file stay."""
        comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
        order = sorted(self._lines.items(), key=lambda item: (list(KINDS).index(item[1].kind), item[0]))
        rows = ["\t".join((test, *expectation)) for test, expectation in order]
        file.write_text("\n".join([*comments, *rows]) + "\n")

    def of(self, test: str) -> Expectation | None:
        return self._lines.get(test) or self._lines.get(f"{test.partition('#')[0]}#{ALL_TESTS}")

    def items(self) -> list[tuple[str, Expectation]]:
        return list(self._lines.items())

    def surprises(self, outcomes: Mapping[str, Outcome], selectors: Sequence[str]) -> list[Surprise]:
        """Outcomes that differ from what is expected, and selected tests that did not run."""
        found = []
        for test, outcome in sorted(outcomes.items()):
            expectation = self.of(test)
            if outcome.status in ("failed", "not portable") and expectation is None:
                found.append(Surprise(test, f"{outcome.status}: {outcome.reason}"))
            elif outcome.status == "passed" and self._must_fail(test):
                found.append(Surprise(test, "passes. Remove its line from expected.tsv"))
        return found + self._missing(outcomes, selectors)

    def _must_fail(self, test: str) -> bool:
        line = self._lines.get(test)
        return line is not None and line.frequency == "always"

    def _missing(self, outcomes: Mapping[str, Outcome], selectors: Sequence[str]) -> list[Surprise]:
        ran = {test.partition("#")[0] for test in outcomes}
        missing = [
            Surprise(name, "no test of it ran; see the logs")
            for name in by_class(selectors)
            if name not in ran
        ]
        whole_classes = {selector for selector in selectors if "#" not in selector}
        for test in self._lines:
            owner, _, method = test.partition("#")
            if owner in whole_classes & ran and method != ALL_TESTS and test not in outcomes:
                missing.append(Surprise(test, "does not exist. Remove its line from expected.tsv"))
        return missing

    def accept(self, outcomes: Mapping[str, Outcome]) -> None:
        """Make these outcomes the expected ones. Kinds and reasons of the new lines are to be reviewed."""
        for test, outcome in outcomes.items():
            if outcome.status == "passed" and self._must_fail(test):
                del self._lines[test]
            elif outcome.status in ("failed", "not portable") and self.of(test) is None:
                kind = "defect" if outcome.status == "failed" else outcome.status
                reason = re.sub(r"cluster-\d+|localhost:\d+", "…", outcome.reason)[:200]
                self._lines[test] = Expectation(kind, "always", reason)
