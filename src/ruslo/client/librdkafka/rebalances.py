"""What happens when a group gives a consumer partitions, or takes them away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

RebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], None]


class Rebalances:
    """Calls the user first, while the partitions are (still, or not yet) read, then lets librdkafka go on.

    ``begin`` says where to begin with partitions, None leaves it to librdkafka; ``before_revoke`` puts
    finished offsets where librdkafka commits them; ``after_loss`` forgets what is known of partitions that
    now belong to somebody else.
    """

    def __init__(
        self,
        *,
        cooperative: bool,
        begin: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]] | None,
        before_revoke: Callable[[], None],
        after_loss: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        self._cooperative = cooperative
        self._begin = begin
        self._before_revoke = before_revoke
        self._after_loss = after_loss
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
        """Within on_assign: begin there. Outside it says False, there is nothing to begin."""
        if self._assigning is None or partition not in self._assigning:
            return False
        self._assigning[partition] = offset
        return True

    def assigned(
        self, handle: confluent_kafka.Consumer, places: list[confluent_kafka.TopicPartition]
    ) -> None:
        begun = {TopicPartition(place.topic, place.partition): place.offset for place in places}
        self._assigning = dict(begun)
        try:
            if self._on_assign is not None:
                self._on_assign(list(begun))
            wanted = self._assigning
        finally:
            self._assigning = None
        if self._begin is not None:
            wanted |= self._begin([place for place, offset in wanted.items() if offset == begun[place]])
        if wanted != begun:
            for place in places:
                place.offset = wanted[TopicPartition(place.topic, place.partition)]
            # Without a call librdkafka assigns by itself, from the committed offsets.
            assign = handle.incremental_assign if self._cooperative else handle.assign
            assign(places)

    def revoked(self, handle: confluent_kafka.Consumer, places: list[confluent_kafka.TopicPartition]) -> None:
        self._before_revoke()
        self._lose(places, self._on_revoke)

    def lost(self, handle: confluent_kafka.Consumer, places: list[confluent_kafka.TopicPartition]) -> None:
        """Others may own them already: nothing can be committed any more."""
        self._lose(places, self._on_lost)

    def _lose(self, places: list[confluent_kafka.TopicPartition], callback: RebalanceCallback | None) -> None:
        partitions = [TopicPartition(place.topic, place.partition) for place in places]
        try:
            if callback is not None:
                callback(partitions)
        finally:
            self._after_loss(partitions)
