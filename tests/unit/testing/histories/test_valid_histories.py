"""Valid histories have no findings, and invalid ones do."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.testing.histories import Anomaly, Event, Isolation, Poll, ReadRange, check
from tests.support.txns.perfect_kafka import PerfectKafka

steps = st.integers(0, 200)


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), steps)
def test_a_valid_history_has_no_findings(random: Random, steps: int) -> None:
    kafka = PerfectKafka(random)
    kafka.run(steps)
    verdict = check(kafka.events)
    assert verdict.valid, str(verdict)
    assert not verdict.unproven


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_an_element_removed_from_the_last_read_is_reported(random: Random) -> None:
    kafka = PerfectKafka(random)
    kafka.run(100)
    at = next(
        at
        for at, event in enumerate(kafka.events)
        if event.process == "last" and event.call == Poll(Isolation.READ_COMMITTED)
    )
    read = kafka.events[at + 1]
    assert isinstance(read.call, Poll)
    confirmed = [
        record
        for read_range in read.call.ranges
        for record in read_range.records
        if record.element in kafka.confirmed
    ]
    if not confirmed:
        return
    removed = random.choice(confirmed)
    ranges = tuple(
        ReadRange(
            read_range.tp,
            read_range.start,
            read_range.end,
            tuple(each for each in read_range.records if each != removed),
        )
        for read_range in read.call.ranges
    )
    kafka.events[at + 1] = Event(read.time_ns, read.process, read.kind, Poll(read.call.isolation, ranges))
    # If another consumer read it, the two disagree; otherwise it is lost.
    assert check(kafka.events).anomalies.keys() & {Anomaly.LOST_WRITE, Anomaly.INCONSISTENT_READ}
