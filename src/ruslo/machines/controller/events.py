"""What can happen to the controller machine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ruslo.protocol.message import Message


@dataclass(frozen=True, slots=True)
class Activated:
    """This node leads the metadata log, and the machine has replayed everything in it."""

    kraft_version: int


@dataclass(frozen=True, slots=True)
class Requested:
    """A request to the active controller. ``next_offset`` is where its first record would be written."""

    token: Hashable
    request: Message
    next_offset: int


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The process of this registration has ended: its connections closed, nobody listens at its address."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """``deadline_ms()`` has come."""
