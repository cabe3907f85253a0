"""What must hold of every partition's log, whatever transactions do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.anomalies import Anomaly, Finding
from ruslo.testing.histories.digest import Digest, Write
from ruslo.testing.histories.events import Event, Isolation
from ruslo.testing.histories.sightings import SeenLog, Sighting, Sightings

NO_EPOCH = -1


def phantoms(history: Digest, seen: Sightings) -> Iterator[Finding]:
    for place, log in seen.everything.items():
        for sighting in (*log.records.values(), *log.others):
            record = sighting.record
            where = f"{record.element} at offset {record.offset} of {place}"
            write = history.writes.get(record.element)
            if write is None:
                yield Finding(Anomaly.PHANTOM, f"nobody wrote {where}", (sighting.read.event,))
                continue
            if (write.append.place, write.append.key) != (place, record.key):
                what = f"{where} under key {record.key} was written to another place"
            elif write.refused:
                what = f"{where} was refused"
            else:
                continue
            yield Finding(Anomaly.PHANTOM, what, (write.asked, sighting.read.event))


def duplicates(history: Digest, seen: Sightings) -> Iterator[Finding]:
    first: dict[str, tuple[TopicPartition, Sighting]] = {}
    for place, log in seen.everything.items():
        for sighting in (*log.records.values(), *log.others):
            record = sighting.record
            known_place, known = first.setdefault(record.element, (place, sighting))
            if (known_place, known.record.offset) != (place, record.offset):
                places = f"{known_place} {known.record.offset} and {place} {record.offset}"
                yield Finding(
                    Anomaly.DUPLICATE,
                    f"{record.element} stands at {places}",
                    _proof(history, known, sighting),
                )


def reordered(history: Digest, seen: Sightings) -> Iterator[Finding]:
    for place, log in seen.everything.items():
        latest: dict[str, tuple[Write, Sighting]] = {}
        written: set[str] = set()
        for offset in sorted(log.records):
            sighting = log.records[offset]
            write = history.writes.get(sighting.record.element)
            if write is None or write.append.element in written:
                continue
            written.add(write.append.element)
            process = write.transaction.process
            if process in latest and latest[process][0].number > write.number:
                later, later_sighting = latest[process]
                yield Finding(
                    Anomaly.REORDERED,
                    f"{process} sent {write.append.element} before {later.append.element}, but in {place} it "
                    f"stands behind it",
                    _ordered(write.asked, later.asked, later_sighting.read.event, sighting.read.event),
                )
            else:
                latest[process] = write, sighting


def inconsistent_reads(history: Digest, seen: Sightings) -> Iterator[Finding]:
    for place, log in seen.everything.items():
        for sighting in log.others:
            known = log.records[sighting.record.offset]
            yield Finding(
                Anomaly.INCONSISTENT_READ,
                f"offset {sighting.record.offset} of {place} has two contents: {known.record.element} and "
                f"{sighting.record.element}",
                _ordered(known.read.event, sighting.read.event),
            )
    # Readers of committed data must agree among themselves; those of uncommitted data must see what anybody
    # sees.
    for place, log in seen.committed.items():
        yield from _overlooked(place, log, log)
    for place, log in seen.uncommitted.items():
        yield from _overlooked(place, log, seen.everything[place])


def _overlooked(place: TopicPartition, log: SeenLog, known: SeenLog) -> Iterator[Finding]:
    for stretch, missed in log.overlooked(known):
        when = "before" if missed.read.answered < stretch.read.answered else "after"
        yield Finding(
            Anomaly.INCONSISTENT_READ,
            f"a read of [{stretch.span.start}, {stretch.span.end}) of {place} did not show "
            f"{missed.record.element} at offset {missed.record.offset}, which was seen {when} that",
            _ordered(missed.read.event, stretch.read.event),
        )


class KnownEnd(NamedTuple):
    answered: int
    end: int
    leader_epoch: int
    event: Event


def ends_that_went_back(history: Digest, seen: Sightings) -> Iterator[Finding]:
    """In real time: an answer may not be behind one that was there before its question was asked.

    Unless a leader of an older epoch gave it. Cut off from the others, or just awake again, it does not know
    of its successor; clients tell such answers by their epoch (KIP-320).
    """
    known: defaultdict[tuple[Isolation, TopicPartition], list[KnownEnd]] = defaultdict(list)
    answers = sorted(history.ends, key=lambda each: each[0].answered)
    for read, call in answers:
        epochs = dict(call.leader_epochs)
        for place, end in call.ends:
            now = KnownEnd(read.answered, end, epochs.get(place, NO_EPOCH), read.event)
            # Answers in the order of time, kept only while they rise: the last one before ``asked`` counts.
            rising = known[call.isolation, place]
            before = next((each for each in reversed(rising) if each.answered < read.asked), None)
            if before is not None and before.end > end and before.leader_epoch <= now.leader_epoch:
                yield Finding(
                    Anomaly.END_WENT_BACK,
                    f"the end of {place} for {call.isolation} went back from {before.end} to {end}",
                    (before.event, read.event),
                )
            if not rising or rising[-1].end < end:
                rising.append(now)


def hanging_transactions(history: Digest, seen: Sightings) -> Iterator[Finding]:
    for place, (stable, read) in seen.final_ends.items():
        if place not in seen.high_watermarks:
            continue
        high_watermark, other = seen.high_watermarks[place]
        if stable < high_watermark:
            yield Finding(
                Anomaly.HANGING_TRANSACTION,
                f"{place} ends at {high_watermark}, but readers of committed data get no further than "
                f"{stable}",
                _ordered(read.event, other.event),
            )


def _proof(history: Digest, *sightings: Sighting) -> tuple[Event, ...]:
    writes = {history.writes.get(each.record.element) for each in sightings}
    asked = [write.asked for write in writes if write is not None]
    return _ordered(*asked, *(each.read.event for each in sightings))


def _ordered(*events: Event) -> tuple[Event, ...]:
    different = {id(event): event for event in events}
    return tuple(sorted(different.values(), key=lambda event: event.time_ns))
