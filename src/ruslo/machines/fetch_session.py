"""Incremental fetch sessions (KIP-227): the broker remembers what a client fetches.

A request names a session and an epoch:

========  =====  ==========================================================================================
session   epoch  meaning
========  =====  ==========================================================================================
any       -1     fetch without a session; close the session if its id is given
any       0      a full request that opens a new session; close the old one if its id is given
id        n > 0  incremental: lists only changes, and must carry the expected epoch
========  =====  ==========================================================================================

The response to an incremental request omits partitions without records, error or changed offsets. Partitions
that returned records move to the back, so that a small byte limit cannot starve the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, TypeAlias

from ruslo.model.errors import ErrorCode

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
MAX_EPOCH = 2**31 - 1
UNKNOWN_OFFSET = -2
"""Differs from every offset and from -1, so the first response always includes the partition."""

MAX_SESSION_PARTITIONS = 10_000
"""Every request of a session checks all of its partitions."""
MAX_CACHED_PARTITIONS = 500_000
"""Partitions of all sessions together: about 150 MB."""

TopicKey: TypeAlias = str | bytes
"""A topic's name (Fetch up to 12) or its id (from 13 on)."""


@dataclass(slots=True, eq=False)
class CachedPartition:
    """What a client fetches from one partition, and the offsets that were last reported to it."""

    topic: TopicKey
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    last_reported_high_watermark: int = UNKNOWN_OFFSET
    last_reported_log_start: int = UNKNOWN_OFFSET

    def reset_reported(self) -> None:
        """Report the offsets again with the next response."""
        self.last_reported_high_watermark = self.last_reported_log_start = UNKNOWN_OFFSET


@dataclass(slots=True)
class FetchSession:
    session_id: int
    uses_topic_ids: bool
    last_used_ms: int
    epoch: int = INITIAL_EPOCH + 1
    """The epoch that the next request must carry."""
    partitions: OrderedDict[tuple[TopicKey, int], CachedPartition] = field(default_factory=OrderedDict)


@dataclass(frozen=True, slots=True)
class FetchContext:
    """The partitions of one request and the session of its response."""

    partitions: Iterable[CachedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    error: ErrorCode = ErrorCode.NONE

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else NO_SESSION

    def __iter__(self) -> Iterator[CachedPartition]:
        return iter(self.partitions)

    def must_include(
        self,
        partition: CachedPartition,
        error: int,
        size: int,
        high_watermark: int,
        log_start: int,
        extra: bool,
    ) -> bool:
        """Whether the response includes this partition; keeps the reported offsets.

        ``extra``: the response has more than offsets (a preferred read replica, a diverging epoch).
        """
        if self.session is None:
            return True
        changed = (
            size > 0
            or extra
            or error != 0
            or partition.last_reported_high_watermark != high_watermark
            or partition.last_reported_log_start != log_start
        )
        if error or extra:
            # Included again next time: the client must see that the error is over, and a follower that has
            # to truncate its log ignores the offsets.
            partition.reset_reported()
        else:
            partition.last_reported_high_watermark = high_watermark
            partition.last_reported_log_start = log_start
        return changed or not self.is_incremental

    def rotate(self, returned: Iterable[CachedPartition]) -> None:
        """Move the partitions that returned records to the back of the session's order."""
        if self.session is not None:
            partitions = self.session.partitions
            for partition in returned:
                key = (partition.topic, partition.index)
                if key in partitions:
                    partitions.move_to_end(key)


@dataclass(slots=True, eq=False)
class FetchSessionCache:
    """All sessions of a broker, at most ``max_sessions`` with ``MAX_CACHED_PARTITIONS`` together.

    A new session may evict the least recently used one, but only if that has been idle for
    ``MIN_EVICTION_MS``: otherwise many clients would evict each other in turn. A request that finds no room
    gets no session.
    """

    MIN_EVICTION_MS: ClassVar = 120_000

    _max_sessions: int
    _random: Random
    _sessions: OrderedDict[int, FetchSession] = field(default_factory=OrderedDict)
    """Sessions by id, least recently used first."""
    _partitions: int = 0
    """The number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self,
        session_id: int,
        epoch: int,
        listed: list[CachedPartition],
        forgotten: Iterable[tuple[TopicKey, int]],
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        """Resolve a request that opens, uses or closes a session."""
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != NO_SESSION:
                self._drop(session_id)
            if epoch == FINAL_EPOCH:
                return FetchContext(listed)
            return self._open_full(listed, uses_topic_ids, now_ms)
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext((), error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext((), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        partitions = session.partitions
        count_before = len(partitions)
        for fresh in listed:
            key = (fresh.topic, fresh.index)
            known = partitions.get(key)
            # A client ignores responses for an epoch that it has left.
            if known is not None and known.current_leader_epoch == fresh.current_leader_epoch:
                fresh.last_reported_high_watermark = known.last_reported_high_watermark
                fresh.last_reported_log_start = known.last_reported_log_start
            partitions[key] = fresh
        for key in forgotten:
            partitions.pop(key, None)
        self._partitions += len(partitions) - count_before
        if not partitions:
            self._drop(session_id)
            return FetchContext(())
        if len(partitions) > max(MAX_SESSION_PARTITIONS, count_before) or (
            self._partitions > MAX_CACHED_PARTITIONS and len(partitions) > count_before
        ):
            self._drop(session_id)
            return FetchContext((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.last_used_ms = now_ms
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        self._sessions.move_to_end(session_id)
        return FetchContext(list(partitions.values()), session, is_incremental=True)

    def _open_full(self, listed: list[CachedPartition], uses_topic_ids: bool, now_ms: int) -> FetchContext:
        if not listed or not self._make_room(len(listed), now_ms):
            return FetchContext(listed)
        session = FetchSession(self._new_id(), uses_topic_ids, now_ms)
        session.partitions.update(((each.topic, each.index), each) for each in listed)
        self._sessions[session.session_id] = session
        self._partitions += len(session.partitions)
        return FetchContext(list(session.partitions.values()), session)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _make_room(self, partitions: int, now_ms: int) -> bool:
        if self._partitions + partitions > MAX_CACHED_PARTITIONS:
            return False
        if len(self._sessions) < self._max_sessions:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms < self.MIN_EVICTION_MS:
            return False
        self._drop(oldest.session_id)
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id
