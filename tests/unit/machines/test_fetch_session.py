"""Fetch sessions: what clients list and what responses include."""

from __future__ import annotations

import random

import pytest

from ruslo.machines.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MAX_CACHED_PARTITIONS,
    MAX_EPOCH,
    MAX_SESSION_PARTITIONS,
    NO_SESSION,
    CachedPartition,
    FetchContext,
    FetchSessionCache,
    TopicKey,
)
from ruslo.model.errors import ErrorCode

NOW = 1_000_000


@pytest.fixture
def cache() -> FetchSessionCache:
    return FetchSessionCache(2, random.Random(7))


def listed(*partitions: tuple[TopicKey, int, int]) -> list[CachedPartition]:
    return [CachedPartition(topic, index, offset, max_bytes=1000) for topic, index, offset in partitions]


def open_full(
    cache: FetchSessionCache, *partitions: tuple[TopicKey, int, int], now: int = NOW
) -> FetchContext:
    return cache.open(NO_SESSION, INITIAL_EPOCH, listed(*partitions), (), True, now)


def keys(context: FetchContext) -> list[tuple[TopicKey, int, int]]:
    return [(partition.topic, partition.index, partition.fetch_offset) for partition in context]


def test_epoch_minus_one_uses_no_session(cache: FetchSessionCache) -> None:
    context = cache.open(NO_SESSION, FINAL_EPOCH, listed((b"t", 0, 5)), (), True, NOW)
    assert context.session_id == NO_SESSION
    assert keys(context) == [(b"t", 0, 5)]
    assert len(cache) == 0


def test_full_request_opens_and_incremental_ones_only_name_changes(cache: FetchSessionCache) -> None:
    first = open_full(cache, (b"t", 0, 5), (b"t", 1, 9))
    assert first.session_id != NO_SESSION
    second = cache.open(first.session_id, 1, listed((b"t", 1, 12), (b"u", 0, 0)), [(b"t", 0)], True, NOW)
    assert second.is_incremental
    assert keys(second) == [(b"t", 1, 12), (b"u", 0, 0)]
    third = cache.open(first.session_id, 2, [], (), True, NOW)
    assert keys(third) == [(b"t", 1, 12), (b"u", 0, 0)]


@pytest.mark.parametrize(
    ("session_offset", "epoch", "uses_ids", "error"),
    [
        (1, 1, True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, False, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_requests_that_do_not_match_the_session_fail(
    cache: FetchSessionCache, session_offset: int, epoch: int, uses_ids: bool, error: ErrorCode
) -> None:
    session_id = open_full(cache, (b"t", 0, 5)).session_id
    failed = cache.open(session_id + session_offset, epoch, [], (), uses_ids, NOW)
    assert failed.error is error
    assert list(failed) == []
    assert cache.open(session_id, 1, [], (), True, NOW).error is ErrorCode.NONE


def test_a_full_or_final_request_closes_the_session_it_names(cache: FetchSessionCache) -> None:
    first = open_full(cache, (b"t", 0, 5)).session_id
    second = cache.open(first, INITIAL_EPOCH, listed((b"t", 0, 5)), (), True, NOW).session_id
    assert cache.open(first, 1, [], (), True, NOW).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    cache.open(second, FINAL_EPOCH, [], (), True, NOW)
    assert len(cache) == 0


def test_a_session_without_partitions_ends(cache: FetchSessionCache) -> None:
    session_id = open_full(cache, (b"t", 0, 5)).session_id
    context = cache.open(session_id, 1, [], [(b"t", 0)], True, NOW)
    assert context.session_id == NO_SESSION
    assert len(cache) == 0


def test_the_epoch_wraps_to_one(cache: FetchSessionCache) -> None:
    context = open_full(cache, (b"t", 0, 5))
    assert context.session is not None
    context.session.epoch = MAX_EPOCH
    assert cache.open(context.session_id, MAX_EPOCH, [], (), True, NOW).error is ErrorCode.NONE
    assert cache.open(context.session_id, 1, [], (), True, NOW).error is ErrorCode.NONE


def test_only_an_idle_session_is_evicted(cache: FetchSessionCache) -> None:
    old = open_full(cache, (b"t", 0, 5))
    open_full(cache, (b"t", 0, 5), now=NOW + 1000)
    assert open_full(cache, (b"t", 0, 5), now=NOW + 2000).session_id == NO_SESSION
    later = NOW + FetchSessionCache.MIN_EVICTION_MS
    assert open_full(cache, (b"t", 0, 5), now=later).session_id != NO_SESSION
    assert cache.open(old.session_id, 1, [], (), True, later).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_incremental_response_includes_only_changes(cache: FetchSessionCache) -> None:
    full = open_full(cache, (b"t", 0, 5))
    (partition,) = full

    def includes(
        context: FetchContext,
        *,
        error: int = 0,
        size: int = 0,
        watermark: int = 5,
        start: int = 0,
        extra: bool = False,
    ) -> bool:
        return context.must_include(partition, error, size, watermark, start, extra)

    assert includes(full)
    incremental = cache.open(full.session_id, 1, [], (), True, NOW)
    assert not includes(incremental)
    assert includes(incremental, size=10)
    assert includes(incremental, extra=True)
    assert includes(incremental), "a follower that truncated its log ignored the offsets"
    assert not includes(incremental)
    assert includes(incremental, watermark=6)
    assert includes(incremental, watermark=6, start=2)
    assert includes(incremental, error=6)
    assert includes(incremental), "the end of an error is a change"
    assert not includes(incremental)


def test_a_new_leader_epoch_reports_all_offsets_again(cache: FetchSessionCache) -> None:
    """The client ignores responses for the previous epoch."""
    first = open_full(cache, (b"t", 0, 5))
    (partition,) = first
    assert first.must_include(partition, 0, 0, high_watermark=5, log_start=0, extra=False)
    fresh = CachedPartition(b"t", 0, 5, max_bytes=1000, current_leader_epoch=1)
    second = cache.open(first.session_id, 1, [fresh], (), True, NOW)
    assert list(second) == [fresh]
    assert second.must_include(fresh, 0, 0, high_watermark=5, log_start=0, extra=False)


def test_partitions_that_returned_records_move_to_the_back(cache: FetchSessionCache) -> None:
    full = open_full(cache, (b"t", 0, 0), (b"t", 1, 0), (b"t", 2, 0))
    first = next(iter(full))
    full.rotate([first])
    again = cache.open(full.session_id, 1, [], (), True, NOW)
    assert [index for _, index, _ in keys(again)] == [1, 2, 0]


def many(count: int, first: int = 0) -> list[CachedPartition]:
    return listed(*((b"t", index, 0) for index in range(first, first + count)))


def test_a_session_has_a_limited_number_of_partitions(cache: FetchSessionCache) -> None:
    context = cache.open(NO_SESSION, INITIAL_EPOCH, many(MAX_SESSION_PARTITIONS), (), True, NOW)
    more = cache.open(context.session_id, 1, many(1, MAX_SESSION_PARTITIONS), [(b"t", 0)], True, NOW)
    assert more.error == ErrorCode.NONE
    too_many = cache.open(context.session_id, 2, many(1), (), True, NOW)
    assert too_many.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0


def test_all_sessions_together_have_a_limited_number_of_partitions() -> None:
    cache = FetchSessionCache(1000, random.Random(7))
    sessions = [
        cache.open(NO_SESSION, INITIAL_EPOCH, many(MAX_SESSION_PARTITIONS), (), True, NOW).session_id
        for _ in range(MAX_CACHED_PARTITIONS // MAX_SESSION_PARTITIONS)
    ]
    assert NO_SESSION not in sessions
    assert open_full(cache, (b"t", 0, 5)).session_id == NO_SESSION
    cache.open(sessions[0], FINAL_EPOCH, [], (), True, NOW)
    assert open_full(cache, (b"t", 0, 5)).session_id != NO_SESSION
