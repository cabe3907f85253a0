"""The events of a share coordinator's shard, and the effect that it requests from its driver."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ruslo.machines.machine import (
    AppendCommitted,
    AppendFailed,
    Loaded,
    Outcome,
    Requested,
    TimerFired,
    Unloaded,
)
from ruslo.machines.share_coordinator.records import ShareRecord
from ruslo.model.errors import KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message


class TopicsDeleted(NamedTuple):
    """The state of these topics is not needed any more."""

    topic_ids: frozenset[Uuid]


class PruneLog(NamedTuple):
    """An effect: delete the committed records before this offset. They do not change the loaded state."""

    offset: int


Response: TypeAlias = Message | KafkaError
ShareOutcome: TypeAlias = Outcome[ShareRecord, Response, PruneLog]
ShareEvent: TypeAlias = (
    Requested[Message, None]
    | TopicsDeleted
    | Loaded
    | Unloaded
    | TimerFired
    | AppendCommitted[ShareRecord, Response, PruneLog]
    | AppendFailed[ShareRecord, Response, PruneLog]
)
