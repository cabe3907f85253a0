"""The controller machine's own events; ``Requested`` and ``TimerFired`` are those of every machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ruslo.machines.machine import Requested, TimerFired
from ruslo.model.principals import ANONYMOUS, Principal
from ruslo.protocol.message import Message


@dataclass(frozen=True, slots=True)
class Activated:
    """This node leads the metadata log, and the machine has replayed all of it."""

    kraft_version: int


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The process of this registration has ended: its connections closed and its address refuses new ones."""

    broker_id: int
    broker_epoch: int


class RequestOrigin(NamedTuple):
    next_offset: int
    """The offset of the next record in the log."""
    principal: Principal = ANONYMOUS


ControllerRequest: TypeAlias = Requested[Message, RequestOrigin]
"""A request to the active controller."""
ControllerEvent: TypeAlias = Activated | BrokerGone | ControllerRequest | TimerFired
