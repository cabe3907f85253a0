"""One line in the log where a client could cause thousands."""

from __future__ import annotations

from typing import NamedTuple


class _Silence(NamedTuple):
    """What is not logged since the last line about a key."""

    begun_s: float
    suppressed: int


class LogThrottle:
    """The first line about a key is admitted. Later ones are counted until the interval is over."""

    def __init__(self, interval_s: float, max_keys: int) -> None:
        """``max_keys``: when so many are silenced, all further keys share one line."""
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
        """Admit lines about keys again whose interval is over; returns how many lines each suppressed."""
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
