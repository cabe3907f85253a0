"""What one event leads to: the transitions, the answers, the markers and the questions of a shard.

It is the Outcome of ``machines.outcome`` for transactions, and plain: a small transaction makes half a dozen
of them, tens of thousands a second.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.machines.outcome import Reply
from ruslo.machines.txns.events import MarkerSend, WantProducerId
from ruslo.machines.txns.transaction import Transition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message

Answer: TypeAlias = Message | KafkaError
"""A KafkaError stands for an answer that is nothing but an error; ``refusals.refusal`` makes the message."""
TxnReply: TypeAlias = Reply[Hashable, Answer]

BYTES_PER_STEP = 262_144
"""When a step of what happens by itself has so much to write, the rest is another step. What does not fit
into one batch fails as a whole, and would again with every try. Well below ``max.message.bytes``: a last
record comes on top."""


@dataclass(slots=True, eq=False)
class Decision:
    """A state changes when its record is committed, not before, so that a reply without a transition rests on
    nothing that could still be lost: it goes out at once."""

    transitions: Sequence[Transition] = ()
    """Their records go to the log as one batch, in this order; the replies wait until it is committed."""
    replies: Sequence[TxnReply] = ()
    sends: Sequence[MarkerSend] = ()
    asks: Sequence[WantProducerId] = ()
    stopped: Sequence[str] = ()
    """Ids whose markers a partition refused because it knows a newer epoch. They stay as they are until the
    partition is loaded again; an operator should hear of it."""
    on_failure: Callable[[ErrorCode], Answer] | None = None
    """What the reply says instead if the append fails; by default nothing but the error."""

    def add(self, other: Decision) -> Decision:
        """Join what another step of the same event decided."""
        self.transitions = (*self.transitions, *other.transitions)
        self.replies = (*self.replies, *other.replies)
        self.sends = (*self.sends, *other.sends)
        self.asks = (*self.asks, *other.asks)
        self.stopped = (*self.stopped, *other.stopped)
        return self


def answer(token: Hashable, message: Answer) -> Decision:
    return Decision(replies=(Reply(token, message),))


def refuse(token: Hashable, code: ErrorCode) -> Decision:
    return answer(token, KafkaError(code))
