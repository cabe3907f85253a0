"""The lines of ResultListener.java become one outcome for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.outcomes import Outcome, read_outcomes

ISOLATED = "test [1] Type=Raft-Isolated, "


def outcomes(folder: Path, *lines: tuple[str, str, str]) -> dict[str, Outcome]:
    """Outcomes of invocations of `org.Test#test`, each with display name, status and reason."""
    file = folder / "results.tsv"
    rows = [f"org.Test\ttest\t{name}\t{status}\t12\t{reason}\n" for name, status, reason in lines]
    file.write_text("".join(rows))
    return read_outcomes([file], "ruslo")


def test_the_worst_invocation_counts(tmp_path: Path) -> None:
    failed = (ISOLATED, "FAILED", "java.lang.AssertionError: no")
    passed = (ISOLATED, "SUCCESSFUL", "")
    expected = {"org.Test#test": Outcome("failed", "java.lang.AssertionError: no")}
    assert outcomes(tmp_path, passed, failed, passed) == expected


def test_a_test_that_passes_without_a_cluster_is_left_out(tmp_path: Path) -> None:
    assert outcomes(tmp_path, ("testOptions()", "SUCCESSFUL", "")) == {}


def test_a_test_that_fails_without_a_cluster_counts(tmp_path: Path) -> None:
    assert outcomes(tmp_path, ("testOptions()", "FAILED", "x"))["org.Test#test"].status == "failed"


@pytest.mark.parametrize("status", ["ABORTED", "FAILED"])
def test_what_needs_a_jvm_is_not_portable(tmp_path: Path, status: str) -> None:
    reason = "org.opentest4j.TestAbortedException: not portable: needs KafkaApis.x <- more"
    assert outcomes(tmp_path, (ISOLATED, status, reason)) == {
        "org.Test#test": Outcome("not portable", "needs KafkaApis.x")
    }


def test_a_repetition_with_the_other_type_of_cluster_does_not_count(tmp_path: Path) -> None:
    reason = "org.opentest4j.TestAbortedException: repeated: runs with isolated controllers"
    combined = ("test [1] Type=Raft-Combined, ", "ABORTED", reason)
    assert outcomes(tmp_path, (ISOLATED, "SUCCESSFUL", ""), combined) == {
        "org.Test#test": Outcome("passed", "")
    }


def test_a_test_that_kafka_disables_is_skipped(tmp_path: Path) -> None:
    assert outcomes(tmp_path, ("test()", "SKIPPED", "KAFKA-1"))["org.Test#test"] == Outcome(
        "skipped", "KAFKA-1"
    )


def test_a_jvm_that_wrote_nothing_has_no_outcomes(tmp_path: Path) -> None:
    assert read_outcomes([tmp_path / "missing.tsv"], "ruslo") == {}
