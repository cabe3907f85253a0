from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ruslo.client.views.position import AtOffset, AtStart, AtTime, BeforeEnd, Position, parse_position

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", AtStart()),
        ("earliest", AtStart()),
        ("end", BeforeEnd(0)),
        ("latest", BeforeEnd(0)),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-5", BeforeEnd(5)),
        ("@1699999999000", AtTime(1_699_999_999_000)),
        ("2h", AtTime(NOW_MS - 7_200_000)),
        ("1.5m", AtTime(NOW_MS - 90_000)),
        ("250ms", AtTime(NOW_MS - 250)),
        ("1w", AtTime(NOW_MS - 604_800_000)),
        ("99999999w", AtTime(0)),
        ("@99999999999999999999", AtTime(2**63 - 1)),
        ("1969-12-31T23:59:59.999Z", AtTime(0)),
        ("1970-01-01T00:00+03:00", AtTime(0)),
        ("2023-11-14T22:13:20Z", AtTime(NOW_MS)),
        ("2023-11-15T01:13:20.500+03:00", AtTime(NOW_MS + 500)),
    ],
)
def test_positions(text: str, expected: Position) -> None:
    assert parse_position(text, NOW_MS) == expected


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 3, 1, 10, 30)
    assert parse_position("2026-03-01T10:30") == AtTime(round(local.timestamp() * 1000))
    assert parse_position("2026-03-01T10:30Z") == AtTime(round(local.replace(tzinfo=UTC).timestamp() * 1000))


def test_ages_are_relative_to_now_by_default() -> None:
    position = parse_position("1h")
    assert isinstance(position, AtTime)
    assert abs(datetime.now(UTC).timestamp() * 1000 - 3_600_000 - position.timestamp_ms) < 60_000


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2 hours", "h", "@", "@x", "--5", "1y", "2026-13-01", "+5"]
)
def test_invalid_positions(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position: write start, end"):
        parse_position(text)
