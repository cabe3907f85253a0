from __future__ import annotations

import pytest

from ruslo.cli.arguments.duration import parse_duration_ms, shown_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("2h", 7_200_000),
        ("1.5m", 90_000),
        ("250ms", 250),
        ("1w", 604_800_000),
        ("PT2H30M", 9_000_000),
        ("P1D", 86_400_000),
        ("P1DT0.5S", 86_400_500),
        ("pt10s", 10_000),
        ("P0DT0H0M0S", 0),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "2", "h", "2 hours", "-PT1H", "P1Y", "PT1M1H", "PT1Hx"]
)
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="Write it as 90s"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("length_ms", "expected"),
    [
        (-5, "0s"),
        (999, "0s"),
        (61_000, "1m 1s"),
        (3_600_000, "1h"),
        (90_061_000, "1d 1h"),
        (86_400_000 + 5_000, "1d 5s"),
    ],
)
def test_printed_durations(length_ms: int, expected: str) -> None:
    assert shown_duration(length_ms) == expected
