"""A follower's side of a fetch session (KIP-227): what to list in the next request, and what to leave out.

    Full ──an answer with a session id──▶ Incremental ──an error of the session, a lost connection──▶ Full
      └──an answer without: again in full──┘

An incremental request lists only what has changed, so that a broker that follows thousands of quiet
partitions sends a few bytes. When it begins to follow so many, the session is filled over several requests:
no node is to be busy with one of them for long. What the leader knows, however, is never left out of date: it
would send the same records again, or answer in an epoch that is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ruslo.model.ids import Uuid

NO_SESSION = 0
FULL_EPOCH = 0
MAX_EPOCH = 2**31 - 1

NEW_AT_MOST = 500
"""Partitions that one request adds to the session."""

Place: TypeAlias = tuple[Uuid, int]
"""Topic id and partition."""


class Wanted(NamedTuple):
    """What is asked of one partition."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class PlannedFetch(NamedTuple):
    session_id: int
    session_epoch: int
    listed: Sequence[tuple[Place, Wanted]]
    forgotten: Sequence[Place]
    is_partial: bool = False
    """More is to be listed, so the leader should not wait for something to send."""


class FetchPlan:
    def __init__(self) -> None:
        self._wanted: dict[Place, Wanted] = {}
        self._changed: dict[Place, None] = {}
        """Places whose wish the leader does not know yet, in the order of their changes."""
        self._known: set[Place] = set()
        """What the leader has in the session."""
        self._forgotten: dict[Place, None] = {}
        """Of these, what was dropped; some of it may be wanted again."""
        self._gets_session = True
        self._session_id = NO_SESSION
        self._epoch = FULL_EPOCH

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, place: Place) -> bool:
        return place in self._wanted

    def want(self, place: Place, wanted: Wanted) -> None:
        if self._wanted.get(place) != wanted:
            self._wanted[place] = wanted
            self._changed[place] = None

    def drop(self, place: Place) -> None:
        if self._wanted.pop(place, None) is not None:
            self._changed.pop(place, None)
            if place in self._known:
                self._forgotten[place] = None

    def next(self) -> PlannedFetch:
        """The next request; ``answered`` or ``restart`` must follow before another."""
        wanted, known, forgotten = self._wanted, self._known, self._forgotten
        candidates = self._changed
        if self._epoch == FULL_EPOCH:
            known.clear()
            forgotten.clear()
            candidates = dict.fromkeys(wanted)
        listed: list[tuple[Place, Wanted]] = []
        later: dict[Place, None] = {}
        room = NEW_AT_MOST if self._gets_session else len(candidates)
        for place in candidates:
            if place not in known or place in forgotten:
                if not room:
                    later[place] = None
                    continue
                room -= 1
                known.add(place)
                forgotten.pop(place, None)
            listed.append((place, wanted[place]))
        known.difference_update(forgotten)
        self._changed, self._forgotten = later, {}
        return PlannedFetch(self._session_id, self._epoch, listed, list(forgotten), bool(later))

    def answered(self, session_id: int) -> None:
        """The request was served; 0: the leader keeps no session for us."""
        self._session_id = session_id
        self._gets_session = session_id != NO_SESSION
        if session_id == NO_SESSION:
            self._epoch = FULL_EPOCH
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def restart(self) -> None:
        """The leader does not know the session any more, or it is not known what it knows."""
        self._session_id = NO_SESSION
        self._gets_session = True
        self._epoch = FULL_EPOCH
