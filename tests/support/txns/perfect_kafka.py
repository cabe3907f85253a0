"""Transactions as Kafka promises them, in memory: whatever is done to it, its histories have no anomaly.

It uses all the freedom that the promise leaves: markers land in their own time, so that partitions show a
transaction at different moments; writers are not isolated from each other; answers get lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from random import Random

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories import (
    Append,
    End,
    Event,
    FetchOffsets,
    Isolation,
    Kind,
    ListEnds,
    Poll,
    ReadRange,
    SeenRecord,
    SendOffsets,
)
from ruslo.testing.histories.events import Call

PLACES = [TopicPartition("orders", index) for index in range(3)]
SOURCE = TopicPartition("source", 0)
GROUP = "g"


@dataclass(eq=False)
class Open:
    """A transaction of one process."""

    name: str
    writes: list[tuple[TopicPartition, int]] = field(default_factory=list)
    moves_to: int | None = None
    committed: bool | None = None
    """None: not decided."""


@dataclass
class Log:
    records: list[tuple[SeenRecord, Open] | None] = field(default_factory=list)
    """None: a marker."""
    stable: set[Open] = field(default_factory=set)
    """Transactions whose marker is here."""

    def last_stable_offset(self) -> int:
        for offset, each in enumerate(self.records):
            if each is not None and each[1] not in self.stable:
                return offset
        return len(self.records)


class PerfectKafka:
    def __init__(self, random: Random, processes: int = 3) -> None:
        self.random = random
        self.events: list[Event] = []
        self.logs = {place: Log() for place in PLACES}
        self.committed_offset = -1
        self.confirmed: set[str] = set()
        """Elements of transactions whose commit was answered."""
        self._numbers = count()
        self._open: dict[str, Open | None] = {f"p{number}": None for number in range(processes)}
        self._unmarked: list[tuple[Open, TopicPartition]] = []
        self._moving: Open | None = None
        """Whoever has read from the source; only one may at a time."""
        self._positions: dict[tuple[Isolation, int, TopicPartition], int] = {}

    def run(self, steps: int) -> None:
        actions = [self.append, self.append, self.move, self.end, self.mark, self.mark, self.poll, self.look]
        for _ in range(steps):
            self.random.choice(actions)()
        self.finish()

    # -- writers ---------------------------------------------------------------------------------------------

    def append(self) -> None:
        process, transaction = self._some_transaction()
        place = self.random.choice(PLACES)
        element = f"e{next(self._numbers)}"
        self._invoke(process, Append(transaction.name, place, f"k{len(element)}", element))
        log = self.logs[place]
        log.records.append((SeenRecord(len(log.records), f"k{len(element)}", element), transaction))
        transaction.writes.append((place, len(log.records) - 1))
        self._answer(process, Append(transaction.name, place, f"k{len(element)}", element))

    def move(self) -> None:
        if self._moving is not None:
            return
        process, transaction = self._some_transaction()
        first = max(self.committed_offset, 0)
        transaction.moves_to = first + self.random.randint(1, 5)
        self._moving = transaction
        call = SendOffsets(transaction.name, GROUP, SOURCE, first, transaction.moves_to)
        self._invoke(process, call)
        self._answer(process, call)

    def end(self) -> None:
        process, transaction = self._some_transaction()
        fate = self.random.random()
        if fate < 0.1:
            # The client dies; somebody aborts its transaction.
            transaction.committed = False
            self._replace(process)
        else:
            commit = fate < 0.7
            self._invoke(process, End(transaction.name, commit))
            survives = self.random.random() < 0.8
            transaction.committed = commit and (survives or self.random.random() < 0.5)
            if survives:
                self._answer(process, End(transaction.name, commit), lost=0)
                if commit:
                    self.confirmed |= {self._element(*write) for write in transaction.writes}
                self._open[process] = None
            else:
                self._replace(process)
        self._unmarked += [(transaction, place) for place in {place for place, _ in transaction.writes}]
        if self._moving is transaction:
            self._moving = None
            if transaction.committed:
                assert transaction.moves_to is not None
                self.committed_offset = transaction.moves_to

    def mark(self) -> None:
        if self._unmarked:
            transaction, place = self._unmarked.pop(self.random.randrange(len(self._unmarked)))
            self.logs[place].stable.add(transaction)
            self.logs[place].records.append(None)

    # -- readers ---------------------------------------------------------------------------------------------

    def poll(self) -> None:
        isolation, reader = self.random.choice(list(Isolation)), self.random.randrange(2)
        process = f"{isolation} {reader}"
        self._invoke(process, Poll(isolation))
        spans = []
        for place in self.random.sample(PLACES, 2):
            start = self._positions.get((isolation, reader, place), 0)
            end = self.random.randint(start, max(self._end(place, isolation), start))
            spans.append(self._span(place, start, end, isolation))
            self._positions[isolation, reader, place] = end
        self._event(process, Kind.OK, Poll(isolation, tuple(spans)))

    def look(self) -> None:
        if self.random.random() < 0.5 and self._moving is None:
            self._event("watcher", Kind.INVOKE, FetchOffsets(GROUP))
            self._event("watcher", Kind.OK, FetchOffsets(GROUP, False, ((SOURCE, self.committed_offset),)))
        else:
            self._list_ends(self.random.choice(list(Isolation)), final=False)

    def finish(self) -> None:
        """Everything comes to its end and is read."""
        for process in list(self._open):
            transaction = self._open[process]
            if transaction is not None:
                transaction.committed = False
                self._unmarked += [
                    (transaction, place) for place in {place for place, _ in transaction.writes}
                ]
        while self._unmarked:
            self.mark()
        for isolation in Isolation:
            self._list_ends(isolation, final=True)
        self._event("watcher", Kind.INVOKE, FetchOffsets(GROUP, True))
        self._event("watcher", Kind.OK, FetchOffsets(GROUP, True, ((SOURCE, self.committed_offset),)))
        for isolation in Isolation:
            self._invoke("last", Poll(isolation))
            spans = (self._span(place, 0, len(log.records), isolation) for place, log in self.logs.items())
            self._event("last", Kind.OK, Poll(isolation, tuple(spans)))

    # -- inside ----------------------------------------------------------------------------------------------

    def _some_transaction(self) -> tuple[str, Open]:
        process = self.random.choice(list(self._open))
        transaction = self._open[process]
        if transaction is None:
            transaction = self._open[process] = Open(f"t{next(self._numbers)}")
        return process, transaction

    def _element(self, place: TopicPartition, offset: int) -> str:
        record = self.logs[place].records[offset]
        assert record is not None
        return record[0].element

    def _replace(self, process: str) -> None:
        del self._open[process]
        self._open[f"p{next(self._numbers)}"] = None

    def _end(self, place: TopicPartition, isolation: Isolation) -> int:
        log = self.logs[place]
        return len(log.records) if isolation is Isolation.READ_UNCOMMITTED else log.last_stable_offset()

    def _span(self, place: TopicPartition, start: int, end: int, isolation: Isolation) -> ReadRange:
        return ReadRange(
            place,
            start,
            end,
            tuple(
                each[0]
                for each in self.logs[place].records[start:end]
                if each is not None and (isolation is Isolation.READ_UNCOMMITTED or each[1].committed)
            ),
        )

    def _list_ends(self, isolation: Isolation, *, final: bool) -> None:
        self._invoke("watcher", ListEnds(isolation, final))
        ends = tuple((place, self._end(place, isolation)) for place in PLACES)
        self._event("watcher", Kind.OK, ListEnds(isolation, final, ends))

    def _invoke(self, process: str, call: Call) -> None:
        self._event(process, Kind.INVOKE, call)

    def _answer(self, process: str, call: Call, lost: float = 0.2) -> None:
        self._event(process, Kind.INFO if self.random.random() < lost else Kind.OK, call)

    def _event(self, process: str, kind: Kind, call: Call) -> None:
        self.events.append(Event(len(self.events), process, kind, call))
