"""The records that an application has, and how it acknowledges them.

============  ========================================================================================
state         meaning
============  ========================================================================================
undecided     delivered, not acknowledged. Implicit: the next poll accepts it
decided       acknowledged, and the next commit or poll sends it. Explicit: may be changed until then
sent          not the application's any more
renewing      its lock is being extended: undecided again when the broker has agreed
============  ========================================================================================
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ruslo.client.share.acknowledgements import (
    Acknowledgements,
    SharePartitionId,
    acknowledgement_batches,
)
from ruslo.client.share.acquired import Acquired
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError


class Delivery:
    """One delivered record: where its lock is held, and its acknowledgement."""

    __slots__ = ("node_id", "offset", "partition", "renewed", "type")

    def __init__(self, partition: SharePartitionId, node_id: int, offset: int) -> None:
        self.partition = partition
        self.node_id = node_id
        self.offset = offset
        self.type: AcknowledgeType | None = None
        self.renewed = False
        """Whether its lock was extended: the application may keep it across polls."""

    def __str__(self) -> str:
        return f"{self.partition.topic_partition} at offset {self.offset}"


class InFlight:
    def __init__(self, *, explicit: bool) -> None:
        self.explicit = explicit
        self.lock = threading.RLock()
        """Records may be acknowledged in another thread than the event loop's; held for a moment only."""
        self._undecided: dict[Delivery, None] = {}
        self._decided: dict[Delivery, None] = {}
        self._renewing: dict[tuple[int, SharePartitionId], list[Delivery]] = {}
        """By leader: records of a partition that moved are still locked at the old one."""

    def deliver(self, delivery: Delivery) -> None:
        self._undecided[delivery] = None

    def add_decided(self, acquired: Acquired, types: Mapping[int, AcknowledgeType]) -> None:
        """Acknowledge offsets that the application does not get: gaps and damaged records."""
        for offset, kind in types.items():
            delivery = Delivery(acquired.partition, acquired.node_id, offset)
            delivery.type = kind
            self._decided[delivery] = None

    # -- decisions

    def acknowledge(self, delivery: Delivery, kind: AcknowledgeType) -> None:
        """The decision of the application. Raises INVALID_RECORD_STATE if the record is not its own."""
        if not self.explicit:
            raise ConfigError(
                "the next poll accepts records: set share.acknowledgement.mode=explicit to decide yourself"
            )
        with self.lock:
            if delivery not in self._undecided and delivery not in self._decided:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"{delivery} was acknowledged before, or the consumer left the group",
                )
            self._undecided.pop(delivery, None)
            delivery.type = kind
            self._decided[delivery] = None

    def accept_all(self) -> None:
        """The records that were delivered so far are processed."""
        for delivery in self._undecided:
            delivery.type = AcknowledgeType.ACCEPT
        self._decided |= self._undecided
        self._undecided.clear()

    def begin_poll(self) -> None:
        """Accept implicitly; with explicit acknowledgement raise if a record has none."""
        if not self.explicit:
            self.accept_all()
            return
        forgotten = next((each for each in self._undecided if not each.renewed), None)
        if forgotten is not None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                f"{forgotten} is not acknowledged: accept, release, reject or renew every record before the "
                "next poll",
            )

    # -- sending

    @property
    def has_decided(self) -> bool:
        return bool(self._decided)

    def take_decided(self) -> dict[int, Acknowledgements]:
        """The acknowledgements to send, by leader; ``on_outcomes`` gets their outcomes."""
        types: dict[int, dict[SharePartitionId, dict[int, AcknowledgeType]]] = {}
        for delivery in self._decided:
            assert delivery.type is not None, "it was decided"
            of_node = types.setdefault(delivery.node_id, {})
            of_node.setdefault(delivery.partition, {})[delivery.offset] = delivery.type
            if delivery.type is AcknowledgeType.RENEW:
                self._renewing.setdefault((delivery.node_id, delivery.partition), []).append(delivery)
        self._decided.clear()
        return {
            node_id: {tp: acknowledgement_batches(offsets) for tp, offsets in of_node.items()}
            for node_id, of_node in types.items()
        }

    def on_outcomes(self, node_id: int, outcomes: Mapping[SharePartitionId, KafkaError | None]) -> None:
        """What the leader ``node_id`` responded."""
        for partition, error in outcomes.items():
            for delivery in self._renewing.pop((node_id, partition), ()):
                if error is None:
                    delivery.type = None
                    delivery.renewed = True
                    self._undecided[delivery] = None

    def clear(self) -> None:
        self._undecided.clear()
        self._decided.clear()
        self._renewing.clear()
