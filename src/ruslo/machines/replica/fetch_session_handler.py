"""A follower's side of a fetch session (KIP-227): which partitions the next Fetch request lists.

    Full ──a response with a session id──▶ Incremental ──a session error, a lost connection──▶ Full
      └──a response without one: full again──┘

An incremental request lists only the partitions that changed, so a broker that follows thousands of idle
partitions sends a few bytes. A follower of thousands of partitions adds them to the session over several
requests, so no single request keeps a node busy for long. A partition that is in the session already is
listed as soon as it changes: otherwise the leader would send the same records again, or respond for an old
epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ruslo.model.ids import Uuid

NO_SESSION = 0
FULL_EPOCH = 0
MAX_EPOCH = 2**31 - 1

MAX_ADDED_PARTITIONS = 500
"""Partitions that one request adds to the session."""

TopicIdPartition: TypeAlias = tuple[Uuid, int]


class PartitionFetch(NamedTuple):
    """What the follower fetches from one partition."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class NextFetch(NamedTuple):
    session_id: int
    session_epoch: int
    listed: Sequence[tuple[TopicIdPartition, PartitionFetch]]
    forgotten: Sequence[TopicIdPartition]
    is_partial: bool = False
    """More partitions follow in the next request, so the leader should respond at once."""


class FetchSessionHandler:
    def __init__(self) -> None:
        self._fetches: dict[TopicIdPartition, PartitionFetch] = {}
        self._changed: dict[TopicIdPartition, None] = {}
        """Partitions whose fetch the leader does not know yet, in the order of their changes."""
        self._in_session: set[TopicIdPartition] = set()
        """Partitions that the leader has in the session."""
        self._forgotten: dict[TopicIdPartition, None] = {}
        """Partitions of the session that were removed; some may have been added again since."""
        self._gets_session = True
        self._session_id = NO_SESSION
        self._epoch = FULL_EPOCH

    def __len__(self) -> int:
        return len(self._fetches)

    def __contains__(self, tp: TopicIdPartition) -> bool:
        return tp in self._fetches

    def add(self, tp: TopicIdPartition, fetch: PartitionFetch) -> None:
        """Fetch this from the partition, from the next request on."""
        if self._fetches.get(tp) != fetch:
            self._fetches[tp] = fetch
            self._changed[tp] = None

    def remove(self, tp: TopicIdPartition) -> None:
        if self._fetches.pop(tp, None) is not None:
            self._changed.pop(tp, None)
            if tp in self._in_session:
                self._forgotten[tp] = None

    def next_request(self) -> NextFetch:
        """Build the next request; ``on_response`` or ``reset`` must follow before another one."""
        fetches, in_session, forgotten = self._fetches, self._in_session, self._forgotten
        candidates = self._changed
        if self._epoch == FULL_EPOCH:
            in_session.clear()
            forgotten.clear()
            candidates = dict.fromkeys(fetches)
        listed: list[tuple[TopicIdPartition, PartitionFetch]] = []
        later: dict[TopicIdPartition, None] = {}
        room = MAX_ADDED_PARTITIONS if self._gets_session else len(candidates)
        for tp in candidates:
            if tp not in in_session or tp in forgotten:
                if not room:
                    later[tp] = None
                    continue
                room -= 1
                in_session.add(tp)
                forgotten.pop(tp, None)
            listed.append((tp, fetches[tp]))
        in_session.difference_update(forgotten)
        self._changed, self._forgotten = later, {}
        return NextFetch(self._session_id, self._epoch, listed, list(forgotten), bool(later))

    def on_response(self, session_id: int) -> None:
        """The leader served the request; session id 0: it keeps no session for this follower."""
        self._session_id = session_id
        self._gets_session = session_id != NO_SESSION
        if session_id == NO_SESSION:
            self._epoch = FULL_EPOCH
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """The leader no longer has the session, or the state of the session is unknown: start a new one."""
        self._session_id = NO_SESSION
        self._gets_session = True
        self._epoch = FULL_EPOCH
