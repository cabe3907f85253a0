"""An in-memory model of Kafka's transactions, whose histories have no anomaly.

It uses all the freedom that Kafka's guarantees leave: markers are written at different times, so partitions
show a transaction at different times; producers are not isolated from each other; responses get lost.
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

TOPIC_PARTITIONS = [TopicPartition("orders", index) for index in range(3)]
SOURCE = TopicPartition("source", 0)
GROUP = "g"


@dataclass(eq=False)
class Open:
    """A transaction of one process."""

    name: str
    writes: list[tuple[TopicPartition, int]] = field(default_factory=list)
    commits_offset: int | None = None
    committed: bool | None = None
    """None before the transaction is decided."""


@dataclass
class Log:
    records: list[tuple[SeenRecord, Open] | None] = field(default_factory=list)
    """Records with their transactions; None is a marker."""
    stable: set[Open] = field(default_factory=set)
    """Transactions whose marker is in this log."""

    def last_stable_offset(self) -> int:
        for offset, each in enumerate(self.records):
            if each is not None and each[1] not in self.stable:
                return offset
        return len(self.records)


class PerfectKafka:
    def __init__(self, random: Random, processes: int = 3) -> None:
        self.random = random
        self.events: list[Event] = []
        self.logs = {tp: Log() for tp in TOPIC_PARTITIONS}
        self.committed_offset = -1
        self.confirmed: set[str] = set()
        """Elements of transactions whose commit was acknowledged."""
        self._numbers = count()
        self._open: dict[str, Open | None] = {f"p{number}": None for number in range(processes)}
        self._unmarked: list[tuple[Open, TopicPartition]] = []
        self._reads_source: Open | None = None
        """The transaction that has read from the source; only one may at a time."""
        self._positions: dict[tuple[Isolation, int, TopicPartition], int] = {}

    def run(self, steps: int) -> None:
        writes = [self.append, self.append, self.send_offsets, self.end, self.mark, self.mark]
        for _ in range(steps):
            self.random.choice([*writes, self.poll, self.list_or_fetch])()
        self.finish()

    # -- writers ---------------------------------------------------------------------------------------------

    def append(self) -> None:
        process, transaction = self._some_transaction()
        tp = self.random.choice(TOPIC_PARTITIONS)
        element = f"e{next(self._numbers)}"
        self._invoke(process, Append(transaction.name, tp, f"k{len(element)}", element))
        log = self.logs[tp]
        log.records.append((SeenRecord(len(log.records), f"k{len(element)}", element), transaction))
        transaction.writes.append((tp, len(log.records) - 1))
        self._complete(process, Append(transaction.name, tp, f"k{len(element)}", element))

    def send_offsets(self) -> None:
        if self._reads_source is not None:
            return
        process, transaction = self._some_transaction()
        first = max(self.committed_offset, 0)
        transaction.commits_offset = first + self.random.randint(1, 5)
        self._reads_source = transaction
        call = SendOffsets(transaction.name, GROUP, SOURCE, first, transaction.commits_offset)
        self._invoke(process, call)
        self._complete(process, call)

    def end(self) -> None:
        process, transaction = self._some_transaction()
        fate = self.random.random()
        if fate < 0.1:
            # The client dies; the coordinator aborts its transaction.
            transaction.committed = False
            self._replace(process)
        else:
            commit = fate < 0.7
            self._invoke(process, End(transaction.name, commit))
            survives = self.random.random() < 0.8
            transaction.committed = commit and (survives or self.random.random() < 0.5)
            if survives:
                self._complete(process, End(transaction.name, commit), lost=0)
                if commit:
                    self.confirmed |= {self._element(*write) for write in transaction.writes}
                self._open[process] = None
            else:
                self._replace(process)
        self._unmarked += [(transaction, tp) for tp in {tp for tp, _ in transaction.writes}]
        if self._reads_source is transaction:
            self._reads_source = None
            if transaction.committed:
                assert transaction.commits_offset is not None
                self.committed_offset = transaction.commits_offset

    def mark(self) -> None:
        if self._unmarked:
            transaction, tp = self._unmarked.pop(self.random.randrange(len(self._unmarked)))
            self.logs[tp].stable.add(transaction)
            self.logs[tp].records.append(None)

    # -- readers ---------------------------------------------------------------------------------------------

    def poll(self) -> None:
        isolation, reader = self.random.choice(list(Isolation)), self.random.randrange(2)
        process = f"{isolation} {reader}"
        self._invoke(process, Poll(isolation))
        ranges = []
        for tp in self.random.sample(TOPIC_PARTITIONS, 2):
            start = self._positions.get((isolation, reader, tp), 0)
            end = self.random.randint(start, max(self._end(tp, isolation), start))
            ranges.append(self._read_range(tp, start, end, isolation))
            self._positions[isolation, reader, tp] = end
        self._event(process, Kind.OK, Poll(isolation, tuple(ranges)))

    def list_or_fetch(self) -> None:
        if self.random.random() < 0.5 and self._reads_source is None:
            self._event("watcher", Kind.INVOKE, FetchOffsets(GROUP))
            self._event("watcher", Kind.OK, FetchOffsets(GROUP, False, ((SOURCE, self.committed_offset),)))
        else:
            self._list_ends(self.random.choice(list(Isolation)), final=False)

    def finish(self) -> None:
        """End all transactions and read all partitions."""
        for process in list(self._open):
            transaction = self._open[process]
            if transaction is not None:
                transaction.committed = False
                self._unmarked += [(transaction, tp) for tp in {tp for tp, _ in transaction.writes}]
        while self._unmarked:
            self.mark()
        for isolation in Isolation:
            self._list_ends(isolation, final=True)
        self._event("watcher", Kind.INVOKE, FetchOffsets(GROUP, True))
        self._event("watcher", Kind.OK, FetchOffsets(GROUP, True, ((SOURCE, self.committed_offset),)))
        for isolation in Isolation:
            self._invoke("last", Poll(isolation))
            ranges = (self._read_range(tp, 0, len(log.records), isolation) for tp, log in self.logs.items())
            self._event("last", Kind.OK, Poll(isolation, tuple(ranges)))

    # -- inside ----------------------------------------------------------------------------------------------

    def _some_transaction(self) -> tuple[str, Open]:
        process = self.random.choice(list(self._open))
        transaction = self._open[process]
        if transaction is None:
            transaction = self._open[process] = Open(f"t{next(self._numbers)}")
        return process, transaction

    def _element(self, tp: TopicPartition, offset: int) -> str:
        record = self.logs[tp].records[offset]
        assert record is not None
        return record[0].element

    def _replace(self, process: str) -> None:
        del self._open[process]
        self._open[f"p{next(self._numbers)}"] = None

    def _end(self, tp: TopicPartition, isolation: Isolation) -> int:
        log = self.logs[tp]
        return len(log.records) if isolation is Isolation.READ_UNCOMMITTED else log.last_stable_offset()

    def _read_range(self, tp: TopicPartition, start: int, end: int, isolation: Isolation) -> ReadRange:
        return ReadRange(
            tp,
            start,
            end,
            tuple(
                each[0]
                for each in self.logs[tp].records[start:end]
                if each is not None and (isolation is Isolation.READ_UNCOMMITTED or each[1].committed)
            ),
        )

    def _list_ends(self, isolation: Isolation, *, final: bool) -> None:
        self._invoke("watcher", ListEnds(isolation, final))
        ends = tuple((tp, self._end(tp, isolation)) for tp in TOPIC_PARTITIONS)
        self._event("watcher", Kind.OK, ListEnds(isolation, final, ends))

    def _invoke(self, process: str, call: Call) -> None:
        self._event(process, Kind.INVOKE, call)

    def _complete(self, process: str, call: Call, lost: float = 0.2) -> None:
        self._event(process, Kind.INFO if self.random.random() < lost else Kind.OK, call)

    def _event(self, process: str, kind: Kind, call: Call) -> None:
        self.events.append(Event(len(self.events), process, kind, call))
