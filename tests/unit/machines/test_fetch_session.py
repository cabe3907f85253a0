"""Fetch sessions, told as what a client asks and what it is told."""

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
    FetchContext,
    FetchedPartition,
    FetchSessionCache,
    TopicKey,
)
from ruslo.model.errors import ErrorCode

NOW = 1_000_000


@pytest.fixture
def cache() -> FetchSessionCache:
    return FetchSessionCache(2, random.Random(7))


def ask(*places: tuple[TopicKey, int, int]) -> list[FetchedPartition]:
    return [FetchedPartition(topic, index, offset, max_bytes=1000) for topic, index, offset in places]


def open_full(cache: FetchSessionCache, *places: tuple[TopicKey, int, int], now: int = NOW) -> FetchContext:
    return cache.open(NO_SESSION, INITIAL_EPOCH, ask(*places), (), True, now)


def keys(context: FetchContext) -> list[tuple[TopicKey, int, int]]:
    return [(partition.topic, partition.index, partition.fetch_offset) for partition in context]


def test_epoch_minus_one_uses_no_session(cache: FetchSessionCache) -> None:
    context = cache.open(NO_SESSION, FINAL_EPOCH, ask((b"t", 0, 5)), (), True, NOW)
    assert context.session_id == NO_SESSION
    assert keys(context) == [(b"t", 0, 5)]
    assert len(cache) == 0


def test_full_request_opens_and_incremental_ones_only_name_changes(cache: FetchSessionCache) -> None:
    first = open_full(cache, (b"t", 0, 5), (b"t", 1, 9))
    assert first.session_id != NO_SESSION
    second = cache.open(first.session_id, 1, ask((b"t", 1, 12), (b"u", 0, 0)), [(b"t", 0)], True, NOW)
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
def test_what_does_not_fit_the_session_is_refused(
    cache: FetchSessionCache, session_offset: int, epoch: int, uses_ids: bool, error: ErrorCode
) -> None:
    session_id = open_full(cache, (b"t", 0, 5)).session_id
    refused = cache.open(session_id + session_offset, epoch, [], (), uses_ids, NOW)
    assert refused.error is error
    assert list(refused) == []
    assert cache.open(session_id, 1, [], (), True, NOW).error is ErrorCode.NONE


def test_naming_a_session_in_a_full_or_final_request_closes_it(cache: FetchSessionCache) -> None:
    first = open_full(cache, (b"t", 0, 5)).session_id
    second = cache.open(first, INITIAL_EPOCH, ask((b"t", 0, 5)), (), True, NOW).session_id
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


def test_a_fresh_session_is_not_robbed_but_a_silent_one_is(cache: FetchSessionCache) -> None:
    old = open_full(cache, (b"t", 0, 5))
    open_full(cache, (b"t", 0, 5), now=NOW + 1000)
    assert open_full(cache, (b"t", 0, 5), now=NOW + 2000).session_id == NO_SESSION
    later = NOW + FetchSessionCache.MIN_EVICTION_MS
    assert open_full(cache, (b"t", 0, 5), now=later).session_id != NO_SESSION
    assert cache.open(old.session_id, 1, [], (), True, later).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_incremental_answer_tells_only_news(cache: FetchSessionCache) -> None:
    full = open_full(cache, (b"t", 0, 5))
    (partition,) = full

    def tells(
        context: FetchContext,
        *,
        error: int = 0,
        size: int = 0,
        watermark: int = 5,
        start: int = 0,
        extra: bool = False,
    ) -> bool:
        return context.must_tell(partition, error, size, watermark, start, extra)

    assert tells(full)
    incremental = cache.open(full.session_id, 1, [], (), True, NOW)
    assert not tells(incremental)
    assert tells(incremental, size=10)
    assert tells(incremental, extra=True)
    assert tells(incremental), "who is told to cut its log has not heard the offsets"
    assert not tells(incremental)
    assert tells(incremental, watermark=6)
    assert tells(incremental, watermark=6, start=2)
    assert tells(incremental, error=6)
    assert tells(incremental), "the end of an error is news"
    assert not tells(incremental)


def test_a_client_that_has_moved_to_another_epoch_is_told_all_again(cache: FetchSessionCache) -> None:
    """It throws away answers about the epoch before, so what these told it does not know."""
    first = open_full(cache, (b"t", 0, 5))
    (partition,) = first
    assert first.must_tell(partition, 0, 0, high_watermark=5, log_start=0, extra=False)
    fresh = FetchedPartition(b"t", 0, 5, max_bytes=1000, current_leader_epoch=1)
    second = cache.open(first.session_id, 1, [fresh], (), True, NOW)
    assert second.must_tell(partition, 0, 0, high_watermark=5, log_start=0, extra=False)


def test_partitions_that_returned_records_go_to_the_back(cache: FetchSessionCache) -> None:
    full = open_full(cache, (b"t", 0, 0), (b"t", 1, 0), (b"t", 2, 0))
    first = next(iter(full))
    full.rotate([first])
    again = cache.open(full.session_id, 1, [], (), True, NOW)
    assert [index for _, index, _ in keys(again)] == [1, 2, 0]


def many(count: int, first: int = 0) -> list[FetchedPartition]:
    return ask(*((b"t", index, 0) for index in range(first, first + count)))


def test_a_session_does_not_grow_without_end(cache: FetchSessionCache) -> None:
    context = cache.open(NO_SESSION, INITIAL_EPOCH, many(MAX_SESSION_PARTITIONS), (), True, NOW)
    more = cache.open(context.session_id, 1, many(1, MAX_SESSION_PARTITIONS), [(b"t", 0)], True, NOW)
    assert more.error == ErrorCode.NONE
    too_many = cache.open(context.session_id, 2, many(1), (), True, NOW)
    assert too_many.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0


def test_all_sessions_together_have_a_limit() -> None:
    cache = FetchSessionCache(1000, random.Random(7))
    sessions = [
        cache.open(NO_SESSION, INITIAL_EPOCH, many(MAX_SESSION_PARTITIONS), (), True, NOW).session_id
        for _ in range(MAX_CACHED_PARTITIONS // MAX_SESSION_PARTITIONS)
    ]
    assert NO_SESSION not in sessions
    assert open_full(cache, (b"t", 0, 5)).session_id == NO_SESSION
    cache.open(sessions[0], FINAL_EPOCH, [], (), True, NOW)
    assert open_full(cache, (b"t", 0, 5)).session_id != NO_SESSION
