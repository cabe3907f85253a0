"""Latency percentiles in constant memory."""

from __future__ import annotations

_SUB_BUCKET_BITS = 8
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


class Latencies:
    """Counts durations in buckets of under 1 % relative width, like an HDR histogram."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self._sum_us = 0
        self._max_us = 0

    def add(self, seconds: float) -> None:
        us = int(seconds * 1_000_000)
        shift = max(0, us.bit_length() - _SUB_BUCKET_BITS)
        # The highest bits of the value: the lower limit of its bucket, exact for small values.
        bucket = us >> shift << shift
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.count += 1
        self._sum_us += us
        self._max_us = max(self._max_us, us)

    def percentile_ms(self, percent: float) -> float:
        """The duration that ``percent`` of all values do not exceed; 0 without values."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket, count in sorted(self._counts.items()):
            seen += count
            if seen >= wanted:
                return bucket / 1000
        return 0.0

    @property
    def mean_ms(self) -> float:
        return self._sum_us / self.count / 1000 if self.count else 0.0

    @property
    def max_ms(self) -> float:
        return self._max_us / 1000

    def as_json(self) -> dict[str, float]:
        fields = {f"p{percent:g}": self.percentile_ms(percent) for percent in PERCENTILES}
        return {**fields, "max": self.max_ms, "mean": round(self.mean_ms, 3)}

    def as_text(self) -> str:
        parts = [f"p{percent:g} {self.percentile_ms(percent):.2f}" for percent in PERCENTILES]
        return ", ".join([*parts, f"max {self.max_ms:.2f} ms"])
