"""Outcomes of Kafka's tests are compared with conformance/expected.tsv."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.expectations import Expectation, Expectations
from conformance.outcomes import Outcome
from conformance.report import PAGE, count, page, read_statuses, record
from conformance.test_sets import SETS, SMOKE, selectors_of

PASSED = Outcome("passed", "")
FAILED = Outcome("failed", "AssertionError: no")
ALWAYS = Expectation("defect", "always", "why")
SOMETIMES = Expectation("differs", "sometimes", "why")


def problems(expected: dict[str, Expectation], outcomes: dict[str, Outcome]) -> list[str]:
    return [f"{test} {problem}" for test, problem in Expectations(expected).surprises(outcomes, ["a.A"])]


def test_an_expected_failure_is_no_surprise() -> None:
    assert problems({"a.A#b": ALWAYS}, {"a.A#b": FAILED}) == []


def test_an_unexpected_failure_is_a_surprise() -> None:
    assert problems({}, {"a.A#b": FAILED}) == ["a.A#b failed: AssertionError: no"]


def test_a_test_that_is_no_longer_portable_is_a_surprise() -> None:
    outcome = Outcome("not portable", "needs x")
    assert problems({}, {"a.A#b": outcome}) == ["a.A#b not portable: needs x"]


def test_an_expected_failure_that_passes_is_a_surprise() -> None:
    assert problems({"a.A#b": ALWAYS}, {"a.A#b": PASSED}) == [
        "a.A#b passes. Remove its line from expected.tsv"
    ]


def test_a_test_that_fails_sometimes_may_pass() -> None:
    assert problems({"a.A#b": SOMETIMES}, {"a.A#b": PASSED}) == []


def test_the_tests_of_an_unsupported_class_may_pass_or_fail() -> None:
    assert problems({"a.A#*": ALWAYS}, {"a.A#b": PASSED, "a.A#c": FAILED}) == []


def test_a_line_without_its_test_is_a_surprise() -> None:
    assert problems({"a.A#gone": ALWAYS}, {"a.A#b": PASSED}) == [
        "a.A#gone does not exist. Remove its line from expected.tsv"
    ]


def test_a_class_that_did_not_run_is_a_surprise() -> None:
    assert problems({}, {}) == ["a.A no test of it ran; see the logs"]


def test_accepted_outcomes_are_expected() -> None:
    expectations = Expectations({"a.A#b": ALWAYS})
    outcomes = {"a.A#b": PASSED, "a.A#c": FAILED}
    expectations.accept(outcomes)
    assert expectations.surprises(outcomes, ["a.A"]) == []
    assert expectations.items() == [("a.A#c", Expectation("defect", "always", FAILED.reason))]


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "expected.tsv"
    file.write_text("# a comment\na.A#b\tdefect\tnever\twhy\n")
    with pytest.raises(ValueError, match=r"expected\.tsv:2: "):
        Expectations.read(file)


def test_the_file_survives_being_written(tmp_path: Path) -> None:
    file = tmp_path / "expected.tsv"
    file.write_text("# a comment\na.A#b\tdefect\talways\twhy\n")
    Expectations.read(file).write(file)
    assert file.read_text() == "# a comment\na.A#b\tdefect\talways\twhy\n"


def test_counts_follow_the_kinds() -> None:
    statuses = {"a.A#b": "failed", "a.A#c": "passed", "a.A#d": "failed"}
    counts = count(statuses, Expectations({"a.A#b": ALWAYS}))
    assert {column: number for column, number in counts.items() if number} == {
        "passed": 1,
        "defect": 1,
        "unexpected failure": 1,
    }


def test_a_run_replaces_the_statuses_of_the_classes_that_it_contains(tmp_path: Path) -> None:
    file = tmp_path / "results.tsv"
    record({"a.A#gone": PASSED, "a.A#b": FAILED, "a.B#b": PASSED, "a.B#c": FAILED}, ["a.A", "a.B"], file)
    record({"a.A#b": PASSED, "a.A#d": Outcome("skipped", "")}, ["a.A"], file)
    record({"a.B#c": PASSED}, ["a.B#c"], file)
    assert read_statuses(file) == {"a.A#b": "passed", "a.B#b": "passed", "a.B#c": "passed"}


def test_the_committed_list_names_tests_of_the_sets() -> None:
    classes = {selector for name in SETS for selector in selectors_of(name)}
    listed = {test.partition("#")[0] for test, _ in Expectations.read().items()}
    assert listed <= classes


def test_the_smoke_set_is_a_part_of_the_others() -> None:
    classes = {selector for name in SETS for selector in selectors_of(name)}
    assert {selector.partition("#")[0] for selector in selectors_of(SMOKE)} <= classes


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make generate`"
