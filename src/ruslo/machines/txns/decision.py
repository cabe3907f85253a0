"""What one event leads to: the transitions, the answers, the markers and the questions of a shard."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.machines.outcome import Append, Outcome, Reply
from ruslo.machines.txns.events import MarkerSend, WantProducerId
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.transaction import Transition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message

Answer: TypeAlias = Message | KafkaError
"""A KafkaError stands for an answer that is nothing but an error; ``refusals.refusal`` makes the message."""
TxnReply: TypeAlias = Reply[Hashable, Answer]


@dataclass(slots=True)
class Decision:
    """What a part of the machine returns; the shard turns it into a TxnOutcome."""

    transitions: list[Transition] = field(default_factory=list)
    replies: list[TxnReply] = field(default_factory=list)
    sends: list[MarkerSend] = field(default_factory=list)
    asks: list[WantProducerId] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    on_failure: Callable[[ErrorCode], Answer] | None = None

    def add(self, other: Decision) -> Decision:
        """Join what another step of the same event decided."""
        self.transitions += other.transitions
        self.replies += other.replies
        self.sends += other.sends
        self.asks += other.asks
        self.stopped += other.stopped
        return self


def answer(token: Hashable, message: Answer) -> Decision:
    return Decision(replies=[Reply(token, message)])


def refuse(token: Hashable, code: ErrorCode) -> Decision:
    return answer(token, KafkaError(code))


@dataclass(frozen=True, slots=True)
class TxnOutcome(Outcome[TxnRecord, Hashable, Answer]):
    """An Outcome, and what only transactions have.

    A state changes when its record is committed, not before, so that a reply without an append rests on
    nothing that could still be lost: it goes out at once.
    """

    sends: tuple[MarkerSend, ...] = ()
    asks: tuple[WantProducerId, ...] = ()
    transitions: tuple[Transition, ...] = ()
    """What the records of ``append`` stand for, in their order."""
    stopped: tuple[str, ...] = ()
    """Ids whose markers a partition refused because it knows a newer epoch. They stay as they are until the
    partition is loaded again; an operator should hear of it."""
    on_failure: Callable[[ErrorCode], Answer] | None = None
    """What the reply says instead if the append fails; by default nothing but the error."""


NOTHING = TxnOutcome()


def outcome_of(decision: Decision) -> TxnOutcome:
    transitions = decision.transitions
    if not (transitions or decision.replies or decision.sends or decision.asks or decision.stopped):
        return NOTHING
    return TxnOutcome(
        append=Append(tuple(each.record for each in transitions)) if transitions else None,
        replies=tuple(decision.replies),
        sends=tuple(decision.sends),
        asks=tuple(decision.asks),
        transitions=tuple(transitions),
        stopped=tuple(decision.stopped),
        on_failure=decision.on_failure,
    )
