from __future__ import annotations

from ruslo.testing.simulation import Line, LineFaults, SimClock


def arrivals(faults: LineFaults, count: int = 200) -> list[int]:
    """The numbers in the order of arrival; one is sent every millisecond."""
    clock = SimClock(1)
    line = Line(clock, faults)
    arrived: list[int] = []
    for number in range(count):
        line.send(lambda number=number: arrived.append(number))  # type: ignore[misc]
        clock.run_for(1)
    clock.run_for(10_000)
    return arrived


def test_slow_line_keeps_the_order() -> None:
    assert arrivals(LineFaults(slow=0.3)) == list(range(200))


def test_faulty_line_loses_and_repeats_but_keeps_the_order() -> None:
    arrived = arrivals(LineFaults(lost=0.2, repeated=0.2, slow=0.1))
    assert arrived == sorted(arrived)
    assert 100 < len(set(arrived)) < 200
    assert len(arrived) > len(set(arrived))
