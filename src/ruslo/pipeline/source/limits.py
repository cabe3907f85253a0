"""How much a micro-batch may read: in total and per topic, in offsets and in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.option_values import OptionValues

OPTIONS: Final = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxOffsetsPerTopic",
    "maxBytesPerTopic",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)
_DEFAULT_DELAY_MS: Final = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    max_offsets: int | None = None
    max_bytes: int | None = None
    max_offsets_of_topic: Mapping[str, int] = field(default_factory=dict)
    max_bytes_of_topic: Mapping[str, int] = field(default_factory=dict)
    min_offsets: int | None = None
    max_delay_ms: int = _DEFAULT_DELAY_MS

    @property
    def has_maximum(self) -> bool:
        return bool(
            self.max_offsets or self.max_bytes or self.max_offsets_of_topic or self.max_bytes_of_topic
        )

    @property
    def counts_bytes(self) -> bool:
        return bool(self.max_bytes or self.max_bytes_of_topic)


NO_LIMITS: Final = TriggerLimits()


def parse_limits(values: OptionValues) -> TriggerLimits:
    limits = TriggerLimits(
        values.optional_number("maxOffsetsPerTrigger"),
        values.size_bytes("maxBytesPerTrigger", None),
        values.by_topic("maxOffsetsPerTopic"),
        values.by_topic("maxBytesPerTopic"),
        values.optional_number("minOffsetsPerTrigger"),
        values.duration_ms("maxTriggerDelay", _DEFAULT_DELAY_MS),
    )
    if limits.min_offsets and limits.max_offsets and limits.min_offsets > limits.max_offsets:
        raise ConfigError(
            f"minOffsetsPerTrigger={limits.min_offsets} is above maxOffsetsPerTrigger={limits.max_offsets}: "
            "lower it"
        )
    return limits


def limit_ends(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limits: TriggerLimits,
    bytes_per_offset: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """The end offsets of a micro-batch within the limits: each partition's share is proportional to its lag.

    A batch reads at least one record if there is one, however small the limit, so a query always advances.
    """
    lags = {p: max(0, ends[p] - starts[p]) for p in ends}
    allowed = {p: float(lag) for p, lag in lags.items()}
    for topic, limit in limits.max_offsets_of_topic.items():
        _scale(allowed, limit, dict.fromkeys((p for p in allowed if p.topic == topic), 1.0))
    for topic, limit in limits.max_bytes_of_topic.items():
        _scale(allowed, limit, {p: bytes_per_offset.get(p, 1.0) for p in allowed if p.topic == topic})
    if limits.max_offsets:
        _scale(allowed, limits.max_offsets, dict.fromkeys(allowed, 1.0))
    if limits.max_bytes:
        _scale(allowed, limits.max_bytes, {p: bytes_per_offset.get(p, 1.0) for p in allowed})
    return _whole_numbers(starts, lags, allowed)


def _scale(allowed: dict[TopicPartition, float], limit: int, cost: Mapping[TopicPartition, float]) -> None:
    total = sum(allowed[partition] * price for partition, price in cost.items())
    if total > limit:
        for partition in cost:
            allowed[partition] *= limit / total


def _whole_numbers(
    starts: Mapping[TopicPartition, int],
    lags: Mapping[TopicPartition, int],
    allowed: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """Round the shares and keep their sum: partitions that lose most by rounding down are rounded up."""
    taken = {partition: min(lags[partition], int(share)) for partition, share in allowed.items()}
    spare = round(sum(allowed.values())) - sum(taken.values())
    if not any(taken.values()):
        spare = max(spare, 1)
    by_loss = sorted(allowed, key=lambda p: (taken[p] - allowed[p], p))
    for partition in by_loss:
        if spare <= 0:
            break
        if taken[partition] < lags[partition]:
            taken[partition] += 1
            spare -= 1
    return {partition: starts[partition] + count for partition, count in taken.items()}
