"""The events of a transaction shard, and the effects that it requests from its driver."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ruslo.machines.machine import AppendCommitted, AppendFailed, Loaded, Requested, TimerFired, Unloaded
from ruslo.machines.txns.cluster_view import ClusterView
from ruslo.machines.txns.marker_requests import EndMarker, MarkerCodes
from ruslo.machines.txns.records import TxnRecord
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message


class RequestInfo(NamedTuple):
    """The properties of a request besides its body."""

    api_version: int
    denied_topics: frozenset[str] = frozenset()
    """Topics of AddPartitionsToTxn that the client may not write to."""


class AllocateProducerId(NamedTuple):
    """An effect: allocate a producer id. ``ProducerIdAllocated`` is the result."""

    allocation: int


class ProducerIdAllocated(NamedTuple):
    allocation: int
    producer_id: int | None
    """None: no producer id is available now; waiting requests fail with a retriable error."""


class SendMarkers(NamedTuple):
    """An effect: send the markers of one or more transactions to the leader of their partitions."""

    node: int
    markers: list[EndMarker]
    send_id: int


class MarkersResult(NamedTuple):
    """The result of a ``SendMarkers``; exactly one for each."""

    send_id: int
    codes: MarkerCodes | None
    """None: the connection failed, and the markers may or may not be written."""


class MarkersRejected(NamedTuple):
    """An effect: report a transaction whose marker a partition rejects because it knows a newer epoch."""

    transactional_id: str
    code: ErrorCode
    """INVALID_PRODUCER_EPOCH: the transaction completes without this marker. TRANSACTION_COORDINATOR_FENCED:
    it stays Prepare* until its coordinator is loaded again."""


class ClusterChanged(NamedTuple):
    """Leaders or topics changed; the machine looks them up in ``view`` from now on."""

    view: ClusterView


TxnEffect: TypeAlias = SendMarkers | AllocateProducerId | MarkersRejected
TxnEvent: TypeAlias = (
    Requested[Message, RequestInfo]
    | ProducerIdAllocated
    | MarkersResult
    | ClusterChanged
    | Loaded
    | Unloaded
    | TimerFired
    | AppendCommitted[TxnRecord, Message | KafkaError, TxnEffect]
    | AppendFailed[TxnRecord, Message | KafkaError, TxnEffect]
)
