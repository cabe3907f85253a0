"""Which brokers are alive, judged by their heartbeats. Kept in memory only.

A new active controller knows no heartbeat yet and gives every unfenced broker a whole session to send one.
"""

from __future__ import annotations

from dataclasses import dataclass

CHECKS_PER_SESSION = 8


@dataclass(slots=True)
class Session:
    last_contact_ms: int
    metadata_offset: int = -1
    """How far the broker says it has replayed the metadata log."""
    confirmed: bool = True
    """False: assumed at activation for this node's own broker, whose process of before is surely gone; or of
    a broker that is being fenced."""


class Sessions:
    __slots__ = ("_by_broker", "registration_offsets", "shutdown_offsets", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._by_broker: dict[int, Session] = {}
        self.registration_offsets: dict[int, int] = {}
        """Offset of each broker's RegisterBrokerRecord: a broker that has replayed it is caught up."""
        self.shutdown_offsets: dict[int, int] = {}
        """Last offset of the batch that moved a stopping broker's leaderships away."""

    def start(self, broker_id: int, now_ms: int, *, confirmed: bool = True) -> None:
        self._by_broker[broker_id] = Session(now_ms, confirmed=confirmed)

    def touch(self, broker_id: int, metadata_offset: int, now_ms: int) -> None:
        session = self._by_broker.setdefault(broker_id, Session(now_ms))
        session.last_contact_ms = now_ms
        session.metadata_offset = metadata_offset
        session.confirmed = True

    def end(self, broker_id: int) -> None:
        self._by_broker.pop(broker_id, None)

    def run_out(self, broker_id: int, now_ms: int) -> None:
        """It is over for the broker, but looked at once more: the log may refuse the records that say so."""
        look_again_ms = now_ms + self.timeout_ms // CHECKS_PER_SESSION
        self._by_broker[broker_id] = Session(look_again_ms - self.timeout_ms, confirmed=False)

    def clear(self) -> None:
        self._by_broker.clear()

    def is_valid(self, broker_id: int, now_ms: int) -> bool:
        session = self._by_broker.get(broker_id)
        return (
            session is not None and session.confirmed and now_ms < session.last_contact_ms + self.timeout_ms
        )

    def metadata_offset(self, broker_id: int) -> int:
        session = self._by_broker.get(broker_id)
        return -1 if session is None else session.metadata_offset

    def expired(self, now_ms: int) -> list[int]:
        return [
            broker_id
            for broker_id, session in self._by_broker.items()
            if session.last_contact_ms + self.timeout_ms <= now_ms
        ]

    def next_expiry_ms(self) -> int | None:
        contacts = [session.last_contact_ms for session in self._by_broker.values()]
        return min(contacts) + self.timeout_ms if contacts else None
