"""This broker's session with the controller: while it is valid, no other broker leads its partitions.

A broker that is partitioned away does not learn that other brokers took over. But that happens only after its
session has expired at the controller. The session there began when the last heartbeat arrived, so after it
was sent. A successor of the controller gives the previous controller's own broker a full session. After a
lapse the broker must first learn what was decided without it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from ruslo.model.clock import Clock
from ruslo.model.errors import KafkaError

logger = logging.getLogger(__name__)


class Quorum(Protocol):
    """The part of RaftDriver that tells how far this broker can trust its metadata."""

    async def catch_up(self) -> None:
        """Return when everything that is committed by now is known here; raises KafkaError."""
        ...

    def last_contact_ms(self) -> int:
        """Now; on the active controller, when a majority last fetched from it."""
        ...


class BrokerSession:
    def __init__(self, quorum: Quorum, clock: Clock, *, broker_id: int, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._quorum = quorum
        self._clock = clock
        self._broker_id = broker_id
        self._expires_ms: int | None = None
        """The controller does not fence this broker before this time; None: there is no session."""
        self._lapses = 0
        """The number of heartbeat responses that arrived without a session."""
        self._lapses_caught_up = -1
        """The value of ``_lapses`` at the last catch-up with the quorum."""
        self._catching_up: asyncio.Task[None] | None = None

    @property
    def is_valid(self) -> bool:
        return self._has_not_expired and self._lapses_caught_up == self._lapses

    @property
    def _has_not_expired(self) -> bool:
        return self._expires_ms is not None and self._clock.monotonic_ms() < self._expires_ms

    def heartbeat_sent_ms(self) -> int:
        """The start of the session that a heartbeat sent now renews."""
        return self._quorum.last_contact_ms()

    def renew(self, sent_ms: int, *, is_fenced: bool, catch_up: bool) -> None:
        """A heartbeat was answered. ``catch_up``: learn what was decided while there was no session."""
        self._lapses += not self._has_not_expired
        self._expires_ms = None if is_fenced else sent_ms + self.timeout_ms
        if catch_up and not is_fenced and not self.is_valid and self._catching_up is None:
            self._catching_up = asyncio.create_task(self._catch_up())

    def end(self) -> None:
        self._expires_ms = None

    async def wait_until_caught_up(self) -> None:
        if self._catching_up is not None:
            await asyncio.wait([self._catching_up])

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel a catch-up in progress; returns the tasks to wait for."""
        if self._catching_up is None:
            return []
        self._catching_up.cancel()
        return [self._catching_up]

    async def _catch_up(self) -> None:
        lapses = self._lapses
        try:
            await self._quorum.catch_up()
            self._lapses_caught_up = lapses
        except KafkaError as error:
            # The next heartbeat tries again.
            logger.info("broker %d cannot catch up with the metadata log: %s", self._broker_id, error)
        finally:
            self._catching_up = None
