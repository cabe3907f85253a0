"""Whatever is allowed is not flagged, and what is not allowed is, wherever it happens."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.testing.histories import Anomaly, Event, Isolation, Poll, Span, check
from tests.support.txns.perfect_kafka import PerfectKafka

steps = st.integers(0, 200)


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), steps)
def test_a_valid_history_is_never_flagged(random: Random, steps: int) -> None:
    kafka = PerfectKafka(random)
    kafka.run(steps)
    verdict = check(kafka.events)
    assert verdict.valid, str(verdict)
    assert not verdict.unproven


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_an_element_taken_out_of_the_last_read_is_missed(random: Random) -> None:
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
        record for span in read.call.spans for record in span.records if record.element in kafka.confirmed
    ]
    if not confirmed:
        return
    gone = random.choice(confirmed)
    spans = tuple(
        Span(span.place, span.start, span.end, tuple(each for each in span.records if each != gone))
        for span in read.call.spans
    )
    kafka.events[at + 1] = Event(read.time_ns, read.process, read.kind, Poll(read.call.isolation, spans))
    # Did another reader see it? Then the two do not agree. If not, it is lost.
    assert check(kafka.events).anomalies.keys() & {Anomaly.LOST_WRITE, Anomaly.INCONSISTENT_READ}
