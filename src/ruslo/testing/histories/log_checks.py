"""Checks that every partition's log must pass, with or without transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.anomalies import Anomaly, Finding
from ruslo.testing.histories.digest import Digest, Write
from ruslo.testing.histories.events import Event, Isolation
from ruslo.testing.histories.observations import Observation, Observations, ObservedLog

NO_EPOCH = -1


def phantoms(history: Digest, seen: Observations) -> Iterator[Finding]:
    for tp, log in seen.everything.items():
        for observation in (*log.records.values(), *log.others):
            record = observation.record
            where = f"{record.element} at offset {record.offset} of {tp}"
            write = history.writes.get(record.element)
            if write is None:
                yield Finding(Anomaly.PHANTOM, f"{where} was never written", (observation.read.event,))
                continue
            if (write.append.tp, write.append.key) != (tp, record.key):
                what = f"{where} with key {record.key} was written with another key or to another partition"
            elif write.refused:
                what = f"{where} was rejected"
            else:
                continue
            yield Finding(Anomaly.PHANTOM, what, (write.invoked, observation.read.event))


def duplicates(history: Digest, seen: Observations) -> Iterator[Finding]:
    first: dict[str, tuple[TopicPartition, Observation]] = {}
    for tp, log in seen.everything.items():
        for observation in (*log.records.values(), *log.others):
            record = observation.record
            known_tp, known = first.setdefault(record.element, (tp, observation))
            if (known_tp, known.record.offset) != (tp, record.offset):
                yield Finding(
                    Anomaly.DUPLICATE,
                    f"{record.element} is at {known_tp} {known.record.offset} and {tp} {record.offset}",
                    _proof(history, known, observation),
                )


def reordered(history: Digest, seen: Observations) -> Iterator[Finding]:
    for tp, log in seen.everything.items():
        latest: dict[str, tuple[Write, Observation]] = {}
        written: set[str] = set()
        for offset in sorted(log.records):
            observation = log.records[offset]
            write = history.writes.get(observation.record.element)
            if write is None or write.append.element in written:
                continue
            written.add(write.append.element)
            process = write.transaction.process
            if process in latest and latest[process][0].number > write.number:
                later, later_observation = latest[process]
                yield Finding(
                    Anomaly.REORDERED,
                    f"{process} sent {write.append.element} before {later.append.element}, but it follows it "
                    f"in {tp}",
                    _ordered(
                        write.invoked, later.invoked, later_observation.read.event, observation.read.event
                    ),
                )
            else:
                latest[process] = write, observation


def inconsistent_reads(history: Digest, seen: Observations) -> Iterator[Finding]:
    for tp, log in seen.everything.items():
        for observation in log.others:
            known = log.records[observation.record.offset]
            yield Finding(
                Anomaly.INCONSISTENT_READ,
                f"offset {observation.record.offset} of {tp} has two contents: {known.record.element} and "
                f"{observation.record.element}",
                _ordered(known.read.event, observation.read.event),
            )
    # read_committed consumers must agree with each other; read_uncommitted ones must read all records.
    for tp, log in seen.committed.items():
        yield from _overlooked(tp, log, log)
    for tp, log in seen.uncommitted.items():
        yield from _overlooked(tp, log, seen.everything[tp])


def _overlooked(tp: TopicPartition, log: ObservedLog, known: ObservedLog) -> Iterator[Finding]:
    for observed, missed in log.overlooked(known):
        when = "before" if missed.read.completed < observed.read.completed else "after"
        yield Finding(
            Anomaly.INCONSISTENT_READ,
            f"a read of [{observed.read_range.start}, {observed.read_range.end}) of {tp} did not show "
            f"{missed.record.element} at offset {missed.record.offset}, which was read {when} that",
            _ordered(missed.read.event, observed.read.event),
        )


class KnownEnd(NamedTuple):
    completed: int
    end: int
    leader_epoch: int
    event: Event


def decreasing_ends(history: Digest, seen: Observations) -> Iterator[Finding]:
    """An end must not be lower than one that was returned before the request was sent.

    Unless an older leader returned it: a leader that is partitioned from the cluster, or was paused, does not
    know its successor. Clients recognize such responses by the leader epoch (KIP-320).
    """
    known: defaultdict[tuple[Isolation, TopicPartition], list[KnownEnd]] = defaultdict(list)
    for read, call in sorted(history.ends, key=lambda each: each[0].completed):
        epochs = dict(call.leader_epochs)
        for tp, end in call.ends:
            now = KnownEnd(read.completed, end, epochs.get(tp, NO_EPOCH), read.event)
            # Responses in order of time, kept only if they increase: the last one before ``invoked`` applies.
            rising = known[call.isolation, tp]
            before = next((each for each in reversed(rising) if each.completed < read.invoked), None)
            if before is not None and before.end > end and before.leader_epoch <= now.leader_epoch:
                yield Finding(
                    Anomaly.END_WENT_BACK,
                    f"the end of {tp} for {call.isolation} decreased from {before.end} to {end}",
                    (before.event, read.event),
                )
            if not rising or rising[-1].end < end:
                rising.append(now)


def hanging_transactions(history: Digest, seen: Observations) -> Iterator[Finding]:
    for tp, (stable, read) in seen.final_ends.items():
        if tp not in seen.high_watermarks:
            continue
        high_watermark, other = seen.high_watermarks[tp]
        if stable < high_watermark:
            yield Finding(
                Anomaly.HANGING_TRANSACTION,
                f"the high watermark of {tp} is {high_watermark}, but its last stable offset is {stable}",
                _ordered(read.event, other.event),
            )


def _proof(history: Digest, *observations: Observation) -> tuple[Event, ...]:
    writes = {history.writes.get(each.record.element) for each in observations}
    invoked = [write.invoked for write in writes if write is not None]
    return _ordered(*invoked, *(each.read.event for each in observations))


def _ordered(*events: Event) -> tuple[Event, ...]:
    different = {id(event): event for event in events}
    return tuple(sorted(different.values(), key=lambda event: event.time_ns))
