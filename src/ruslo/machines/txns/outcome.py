"""The outcome of an event of a transaction shard."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from ruslo.machines.machine import Outcome, Reply
from ruslo.machines.txns.events import TxnEffect
from ruslo.machines.txns.records import TxnRecord
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message

Response: TypeAlias = Message | KafkaError
"""A KafkaError stands for a response that contains only an error; ``errors.error_response`` builds it."""
TxnReply: TypeAlias = Reply[Response]
TxnOutcome: TypeAlias = Outcome[TxnRecord, Response, TxnEffect]

MAX_BATCH_BYTES = 262_144
"""An event without a request stops adding records at this size; the rest follows in another event. A batch
that is too large fails as a whole, and would fail again with every retry. The limit is well below
``max.message.bytes`` because one more record may exceed it."""


def respond(token: Hashable, message: Response) -> TxnOutcome:
    """Reply at once: transaction state changes when its record is committed, so a read sees nothing else."""
    return Outcome(replies=[Reply(token, message)])


def reject(token: Hashable, code: ErrorCode) -> TxnOutcome:
    return respond(token, KafkaError(code))
