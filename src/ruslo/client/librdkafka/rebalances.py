"""Handles the assignment and revocation of a consumer's partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, TypeAlias

from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

RebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], None]


@dataclass(eq=False)
class Rebalances:
    """Calls the user's callback before librdkafka starts or stops fetching the partitions.

    ``start_positions`` returns the offsets to start at, or is None to leave that to librdkafka;
    ``before_revoke`` stores processed offsets for librdkafka's commit; ``after_loss`` drops the state of
    partitions that another member owns now.
    """

    _: KW_ONLY
    cooperative: bool
    start_positions: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]] | None
    before_revoke: Callable[[], None]
    after_loss: Callable[[Sequence[TopicPartition]], None]

    def __post_init__(self) -> None:
        self._on_assign: RebalanceCallback | None = None
        self._on_revoke: RebalanceCallback | None = None
        self._on_lost: RebalanceCallback | None = None
        self._assigning: dict[TopicPartition, int] | None = None

    def listen(
        self,
        on_assign: RebalanceCallback | None,
        on_revoke: RebalanceCallback | None,
        on_lost: RebalanceCallback | None,
    ) -> None:
        self._on_assign = on_assign
        self._on_revoke = on_revoke
        self._on_lost = on_lost or on_revoke

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Within on_assign, set the start offset; elsewhere return False."""
        if self._assigning is None or partition not in self._assigning:
            return False
        self._assigning[partition] = offset
        return True

    def assigned(
        self, handle: confluent_kafka.Consumer, offsets: list[confluent_kafka.TopicPartition]
    ) -> None:
        initial = {TopicPartition(each.topic, each.partition): each.offset for each in offsets}
        self._assigning = dict(initial)
        try:
            if self._on_assign is not None:
                self._on_assign(list(initial))
            wanted = self._assigning
        finally:
            self._assigning = None
        if self.start_positions is not None:
            wanted |= self.start_positions([tp for tp, offset in wanted.items() if offset == initial[tp]])
        if wanted != initial:
            for each in offsets:
                each.offset = wanted[TopicPartition(each.topic, each.partition)]
            # Without this call librdkafka assigns the partitions itself, from the committed offsets.
            assign = handle.incremental_assign if self.cooperative else handle.assign
            assign(offsets)

    def revoked(
        self, handle: confluent_kafka.Consumer, offsets: list[confluent_kafka.TopicPartition]
    ) -> None:
        self.before_revoke()
        self._lose(offsets, self._on_revoke)

    def lost(self, handle: confluent_kafka.Consumer, offsets: list[confluent_kafka.TopicPartition]) -> None:
        """Another member may own the partitions already, so offsets can no longer be committed."""
        self._lose(offsets, self._on_lost)

    def _lose(
        self, offsets: list[confluent_kafka.TopicPartition], callback: RebalanceCallback | None
    ) -> None:
        partitions = [TopicPartition(each.topic, each.partition) for each in offsets]
        try:
            if callback is not None:
                callback(partitions)
        finally:
            self.after_loss(partitions)
