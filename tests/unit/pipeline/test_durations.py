from __future__ import annotations

import pytest

from ruslo.pipeline.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("10 secs", 10_000),
        ("0s", 0),
        ("1.5 s", 1_500),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("10 minutes", 600_000),
        ("1 hour 5 min", 3_900_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "10", "s", "ten seconds", "10 parsecs", "-5s", "5s later"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        duration_ms(text)
