"""What can happen to a transaction shard, and what it may ask its driver for."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ruslo.machines.txns.cluster_view import ClusterView
from ruslo.machines.txns.marker_requests import EndMarker, MarkerCodes
from ruslo.protocol.message import Message


class RequestInfo(NamedTuple):
    """What is known of a request besides its body."""

    api_version: int
    denied_topics: frozenset[str] = frozenset()
    """Topics of AddPartitionsToTxn that the client may not write to."""


class Requested(NamedTuple):
    """A request for ids of this shard. Its answer carries ``token``, maybe in a later Outcome."""

    token: Hashable
    request: Message
    context: RequestInfo


@dataclass(frozen=True, slots=True)
class ProducerIdGiven:
    """Answer to ``WantProducerId``."""

    ask_id: int
    producer_id: int | None
    """None: there is none at hand; whoever waits is told to come again."""


class MarkersAnswered(NamedTuple):
    """Answer to a ``MarkerSend``; exactly one for each."""

    send_id: int
    codes: MarkerCodes | None
    """None: the connection failed, and nobody knows what became of the markers."""


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """Leaders or topics changed; from now on ``view`` is what the machine looks them up in."""

    view: ClusterView


@dataclass(frozen=True, slots=True)
class Loaded:
    """This node leads the partition and has replayed all of it: decided transactions are completed."""

    coordinator_epoch: int
    """Leader epoch of the partition; it fences the markers of earlier coordinators."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """This node no longer leads the partition: whoever waits is answered, nothing is decided any more."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """``deadline_ms()`` has come."""


@dataclass(frozen=True, slots=True)
class WantProducerId:
    """A producer id that nobody has used yet."""

    ask_id: int


class MarkerSend(NamedTuple):
    """Markers for partitions that this node leads, of one transaction or several."""

    node: int
    markers: list[EndMarker]
    send_id: int


TxnEvent: TypeAlias = (
    Requested | ProducerIdGiven | MarkersAnswered | ClusterChanged | Loaded | Unloaded | TimerFired
)
