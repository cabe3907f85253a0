"""One log line per key and interval, whatever the number of keys."""

from __future__ import annotations

from ruslo.net.log_throttle import OTHERS, LogThrottle


def test_one_line_per_interval_and_a_count_of_the_rest() -> None:
    throttle = LogThrottle(interval_s=60, max_keys=10)
    assert [throttle.admits("a", now) for now in (0, 1, 59)] == [True, False, False]
    assert throttle.admits("b", 30)
    assert throttle.end_intervals(59) == []
    assert throttle.end_intervals(60) == [("a", 2)]
    assert throttle.admits("a", 61)
    assert not throttle.admits("b", 62)
    # An interval without suppressed lines ends silently.
    assert throttle.end_intervals(200) == [("b", 1)]
    assert throttle.end_intervals(400) == []


def test_many_keys_share_a_line() -> None:
    throttle = LogThrottle(interval_s=60, max_keys=3)
    assert sum(throttle.admits(f"10.0.0.{n}", 0) for n in range(1000)) == 4
    assert throttle.end_intervals(60) == [(OTHERS, 996)]
