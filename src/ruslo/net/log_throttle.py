"""Limits how often the log repeats a line that clients can cause thousands of times."""

from __future__ import annotations

from typing import NamedTuple


class _Silence(NamedTuple):
    """The lines about a key that were suppressed since the last one."""

    begun_s: float
    suppressed: int


class LogThrottle:
    """Admits the first line about a key, then only counts lines until the interval is over."""

    def __init__(self, interval_s: float, max_keys: int) -> None:
        """``max_keys``: with this many silenced keys, all further ones share one line."""
        self._interval_s = interval_s
        self._max_keys = max_keys
        self._silenced: dict[str, _Silence] = {}

    def admits(self, key: str, now_s: float) -> bool:
        """Whether a line about ``key`` may be logged now."""
        if key not in self._silenced and len(self._silenced) >= self._max_keys:
            key = OTHERS
        silence = self._silenced.get(key)
        if silence is None:
            self._silenced[key] = _Silence(now_s, 0)
            return True
        self._silenced[key] = silence._replace(suppressed=silence.suppressed + 1)
        return False

    def end_intervals(self, now_s: float) -> list[tuple[str, int]]:
        """Admit lines again whose interval is over; returns the number of suppressed lines by key."""
        over = {
            key: silence.suppressed
            for key, silence in self._silenced.items()
            if now_s - silence.begun_s >= self._interval_s
        }
        for key in over:
            del self._silenced[key]
        return [(key, suppressed) for key, suppressed in over.items() if suppressed]


OTHERS = "other addresses"
"""The key that stands for all keys beyond ``max_keys``."""
