"""Durations in the notation of ISO 8601."""

from __future__ import annotations

import pytest

from ruslo.config.iso_duration import iso_duration_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P3D", 259_200_000),
        ("PT1H", 3_600_000),
        ("pt2m", 120_000),
        ("PT0.5S", 500),
        ("PT1.0009S", 1_000),
        ("P1DT1H1M1S", 90_061_000),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert iso_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "PT1D", "PT-1H", "P1Y", "PT1H ", "PT1.S"])
def test_other_texts_are_not_durations(text: str) -> None:
    assert iso_duration_ms(text) is None
