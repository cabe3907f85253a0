"""Share sessions: epochs, partitions, limits, and the end of a connection."""

from __future__ import annotations

import pytest

from ruslo.machines import share_session
from ruslo.machines.share_session import (
    FINAL_EPOCH,
    MAX_EPOCH,
    SessionKey,
    ShareSessionCache,
    TopicIdPartition,
)
from ruslo.model.errors import ErrorCode, KafkaError

TOPIC = b"topic-id-16bytes"
ONE = SessionKey("g", "m1")
TWO = SessionKey("g", "m2")


def tp(index: int) -> TopicIdPartition:
    return TOPIC, index


def test_epochs_count_requests() -> None:
    cache = ShareSessionCache(10)
    with pytest.raises(KafkaError) as error:
        cache.use(ONE, 1)
    assert error.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND
    session = cache.open(ONE, [tp(0)], "c")
    for wrong in (2, -2):
        with pytest.raises(KafkaError) as error:
            cache.use(ONE, wrong)
        assert error.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert cache.use(ONE, 1) is session
    assert session.epoch == 2
    assert cache.use(ONE, FINAL_EPOCH) is session
    assert session.epoch == 2, "the request that closes the session does not count"
    session.epoch = MAX_EPOCH
    cache.use(ONE, MAX_EPOCH)
    assert session.epoch == 1


def test_partitions_are_added_and_forgotten() -> None:
    cache = ShareSessionCache(10)
    session = cache.open(ONE, [tp(0), tp(1), tp(1)], "c")
    assert cache.partition_count == 2
    cache.update(session, [tp(1), tp(2)], [tp(0), tp(9)])
    assert list(session.partitions) == [tp(1), tp(2)]
    assert cache.partition_count == 2
    cache.open(TWO, [tp(5)], "c")
    assert (len(cache), cache.partition_count) == (2, 3)
    assert cache.remove(ONE) is session
    assert cache.remove(ONE) is None
    assert (len(cache), cache.partition_count) == (1, 1)


def test_a_response_leaves_out_partitions_without_news() -> None:
    cache = ShareSessionCache(10)
    session = cache.open(ONE, [tp(0), tp(1)], "c")
    assert session.must_include(tp(0), error=0, size=0), "the first response includes all"
    cache.use(ONE, 1)
    assert not session.must_include(tp(0), error=0, size=0)
    assert session.must_include(tp(0), error=0, size=9)
    assert list(session.partitions) == [tp(1), tp(0)], "a partition with records moves to the back"
    assert session.must_include(tp(1), error=6, size=0)
    assert session.must_include(tp(1), error=0, size=0), "the client learns that the error is over"
    assert not session.must_include(tp(1), error=0, size=0)
    cache.update(session, [tp(2)], ())
    assert session.must_include(tp(2), error=0, size=0), "a partition that was added"
    assert not session.must_include(tp(2), error=0, size=0)


def test_a_session_that_finds_no_room_is_refused() -> None:
    cache = ShareSessionCache(1)
    first = cache.open(ONE, [tp(0)], "c")
    with pytest.raises(KafkaError) as error:
        cache.open(TWO, [tp(0)], "c")
    assert error.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert cache.get(ONE) is first
    assert cache.open(ONE, [tp(0)], "c") is not first, "its own place is free again"


def test_partitions_of_sessions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_session, "MAX_SESSION_PARTITIONS", 2)
    monkeypatch.setattr(share_session, "MAX_CACHED_PARTITIONS", 3)
    cache = ShareSessionCache(10)
    with pytest.raises(KafkaError) as error:
        cache.open(ONE, [tp(0), tp(1), tp(2)], "c")
    assert error.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (len(cache), cache.partition_count) == (0, 0)
    session = cache.open(ONE, [tp(0), tp(1)], "c")
    with pytest.raises(KafkaError):
        cache.update(session, [tp(2)], ())
    cache.open(TWO, [tp(0)], "c")
    with pytest.raises(KafkaError):
        cache.open(SessionKey("g", "m3"), [tp(0)], "c")
    assert cache.partition_count == 3


def test_sessions_end_with_their_connection() -> None:
    cache = ShareSessionCache(10)
    moved = cache.open(ONE, [tp(0)], "old")
    other = cache.open(SessionKey("h", "m1"), [tp(0)], "old")
    cache.open(ONE, [tp(0)], "new")
    assert cache.connection_lost("old") == [other]
    assert cache.get(ONE) is not moved
    assert cache.evictions == 1
    assert (cache.has_members("g"), cache.has_members("h")) == (True, False)
    assert cache.connection_lost("old") == []
    assert len(cache.clear()) == 1
    assert (len(cache), cache.partition_count, cache.has_members("g")) == (0, 0, False)
