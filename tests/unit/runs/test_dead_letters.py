from __future__ import annotations

from ruslo.runs.dead_letters import OFFSET, PARTITION, REASON, TOPIC, Origin, origin_of


def test_a_letter_tells_where_it_came_from() -> None:
    headers = [("own", b"x"), (REASON, b"bad"), (TOPIC, b"orders"), (PARTITION, b"3"), (OFFSET, b"9")]
    assert origin_of(headers) == Origin("orders", 3, "bad")


def test_a_letter_that_died_twice_goes_where_it_came_from_last() -> None:
    headers = [(TOPIC, b"a"), (PARTITION, b"1"), (TOPIC, b"b"), (PARTITION, b"2")]
    assert origin_of(headers) == Origin("b", 2, "no reason given")


def test_other_records_are_no_letters() -> None:
    assert origin_of([]) is None
    assert origin_of([(TOPIC, b"a")]) is None
    assert origin_of([(TOPIC, b"a"), (PARTITION, b"-1")]) is None
    assert origin_of([(TOPIC, None), (PARTITION, b"1")]) is None
