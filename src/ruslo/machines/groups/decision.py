"""What one event leads to: the records, the answers and the questions of a group shard."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ruslo.machines.groups.events import Ask
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.outcome import Append, Outcome, Reply
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message

Answer: TypeAlias = Message | KafkaError
"""A KafkaError stands for an answer that is nothing but an error; ``refusals.refusal`` makes the message."""
GroupReply: TypeAlias = Reply[Hashable, Answer]


class Producer(NamedTuple):
    """In whose transaction a batch is written."""

    id: int
    epoch: int


@dataclass(slots=True)
class Decision:
    """What a part of the machine returns; the shard turns it into a GroupOutcome."""

    records: list[GroupRecord] = field(default_factory=list)
    replies: list[GroupReply] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    producer: Producer | None = None
    at_once: bool = False
    """The replies rest on nothing in the log: do not hold them back for appends that are under way."""
    undo: Callable[[ErrorCode, int], Decision] | None = None
    """Called with the client's error and the time if the records could not be written; takes soft state back
    and gives the answers of tokens that are in no reply of this decision."""

    def reply(self, token: Hashable, answer: Answer) -> Decision:
        self.replies.append(Reply(token, answer))
        return self

    def add(self, other: Decision) -> Decision:
        """Join what another step of the same event decided."""
        self.records += other.records
        self.replies += other.replies
        self.asks += other.asks
        if other.undo is not None:
            self.undo = other.undo if self.undo is None else _both(self.undo, other.undo)
        return self


def answer(token: Hashable, message: Answer) -> Decision:
    return Decision(replies=[Reply(token, message)])


def _both(
    first: Callable[[ErrorCode, int], Decision], second: Callable[[ErrorCode, int], Decision]
) -> Callable[[ErrorCode, int], Decision]:
    return lambda code, now_ms: second(code, now_ms).add(first(code, now_ms))


@dataclass(frozen=True, slots=True)
class GroupOutcome(Outcome[GroupRecord, Hashable, Answer]):
    """An Outcome, and what only groups have.

    A reply whose ``append`` is None goes out at once; with an empty Append it waits until everything appended
    before is committed, because it rests on that.
    """

    asks: tuple[Ask, ...] = ()
    producer: Producer | None = None
    """Set: the append is a transactional batch of this producer."""
    undo: Callable[[ErrorCode, int], Decision] | None = None


NOTHING = GroupOutcome()


def outcome_of(decision: Decision) -> GroupOutcome:
    records = decision.records
    if not records and not decision.replies and not decision.asks:
        return NOTHING
    append = None if decision.at_once and not records else Append(tuple(records))
    if not records and not decision.replies:
        append = None
    return GroupOutcome(
        append=append,
        replies=tuple(decision.replies),
        asks=tuple(decision.asks),
        producer=decision.producer,
        undo=decision.undo,
    )
