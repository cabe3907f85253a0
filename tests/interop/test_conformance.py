"""A short part of Apache Kafka's own integration tests; `make conformance` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.run import run_set
from conformance.test_sets import SMOKE, selectors_of
from conformance.workers import Session


@pytest.mark.usefixtures("needs_java")
def test_kafkas_own_tests_have_the_expected_outcomes(tmp_path: Path) -> None:
    outcomes, surprises = run_set(SMOKE, Session("ruslo", tmp_path))
    assert surprises == [], f"logs: {tmp_path}"
    assert set(outcomes) == set(selectors_of(SMOKE))
