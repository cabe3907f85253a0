from __future__ import annotations

from ruslo.runs.dead_letters import OFFSET, PARTITION, REASON, TOPIC, Origin, origin_of


def test_the_headers_name_the_origin() -> None:
    headers = [("own", b"x"), (REASON, b"bad"), (TOPIC, b"orders"), (PARTITION, b"3"), (OFFSET, b"9")]
    assert origin_of(headers) == Origin("orders", 3, "bad")


def test_the_last_origin_of_a_record_that_failed_twice_applies() -> None:
    headers = [(TOPIC, b"a"), (PARTITION, b"1"), (TOPIC, b"b"), (PARTITION, b"2")]
    assert origin_of(headers) == Origin("b", 2, "no reason given")


def test_other_records_have_no_origin() -> None:
    assert origin_of([]) is None
    assert origin_of([(TOPIC, b"a")]) is None
    assert origin_of([(TOPIC, b"a"), (PARTITION, b"-1")]) is None
    assert origin_of([(TOPIC, None), (PARTITION, b"1")]) is None
