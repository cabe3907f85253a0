"""Records of a share consumer, and how they are made from acquired ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias

from ruslo.client.errors import UndecodableRecord
from ruslo.client.share.acquired import AcquiredRecord
from ruslo.client.share.in_flight import Delivery, InFlight
from ruslo.client.type_variables import K_co, V_co
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.records.record import Header

Deserializer: TypeAlias = Callable[[bytes | None], V_co]


class ShareRecord(Generic[K_co, V_co]):
    """A record that this consumer has acquired: until its lock expires, no other consumer gets it.

    With ``share.acknowledgement.mode=explicit`` the application acknowledges each record. The next commit or
    poll sends the acknowledgement; until then a later call replaces it.
    """

    __slots__ = (
        "_delivery",
        "_in_flight",
        "delivery_count",
        "headers",
        "key",
        "offset",
        "partition",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(
        self, delivery: Delivery, in_flight: InFlight, acquired: AcquiredRecord, key: K_co, value: V_co
    ) -> None:
        record = acquired.record
        self.topic: str = delivery.partition.topic
        self.partition: int = delivery.partition.partition
        self.offset: int = record.offset
        self.timestamp_ms: int = record.timestamp
        self.key = key
        self.value = value
        self.headers: tuple[Header, ...] = record.headers
        self.delivery_count: int = acquired.delivery_count
        """How often the record was delivered to the group's consumers, this delivery included."""
        self._delivery = delivery
        self._in_flight = in_flight

    def accept(self) -> None:
        """The record is processed."""
        self._in_flight.acknowledge(self._delivery, AcknowledgeType.ACCEPT)

    def release(self) -> None:
        """Deliver the record again, to any consumer of the group, up to the delivery limit of the group."""
        self._in_flight.acknowledge(self._delivery, AcknowledgeType.RELEASE)

    def reject(self) -> None:
        """The record cannot be processed: do not deliver it again."""
        self._in_flight.acknowledge(self._delivery, AcknowledgeType.REJECT)

    def renew(self) -> None:
        """Extend the lock: processing takes longer. The record needs another acknowledgement later."""
        self._in_flight.acknowledge(self._delivery, AcknowledgeType.RENEW)

    def __repr__(self) -> str:
        return (
            f"ShareRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r}, delivery_count={self.delivery_count})"
        )


class ShareRecordReader(Generic[K_co, V_co]):
    """Makes records. Deserializers also get None, as in Java."""

    def __init__(self, key: Deserializer[K_co] | None, value: Deserializer[V_co] | None) -> None:
        self._key = key
        self._value = value

    def read(
        self, delivery: Delivery, in_flight: InFlight, acquired: AcquiredRecord
    ) -> ShareRecord[K_co, V_co]:
        """Raises UndecodableRecord if a deserializer fails."""
        record = acquired.record
        key = self._decoded("key", self._key, delivery, record.key)
        value = self._decoded("value", self._value, delivery, record.value)
        return ShareRecord(delivery, in_flight, acquired, key, value)  # type: ignore[arg-type]  # see Deserializer

    def _decoded(
        self,
        part: str,
        deserialize: Callable[[bytes | None], object] | None,
        delivery: Delivery,
        data: bytes | None,
    ) -> object:
        if deserialize is None:
            return data
        try:
            return deserialize(data)
        except Exception as error:
            raise UndecodableRecord(
                part,
                delivery.partition.topic_partition,
                delivery.offset,
                error,
                fix="it was released, and is delivered again up to the delivery limit of the group",
            ) from error
