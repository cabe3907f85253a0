"""Share sessions (KIP-932): the broker remembers which partitions a member of a share group fetches.

A session belongs to a group and a member. Requests carry an epoch:

=====  ======================================================================================
epoch  meaning
=====  ======================================================================================
0      ShareFetch only: open a session; an open one of the same member is replaced
n > 0  use the session; n must be the expected epoch. ShareFetch lists only changes
-1     close the session: the member's records become available to others
=====  ======================================================================================

A session ends with its connection, because a member that has lost it cannot acknowledge in time. Nothing else
evicts a session: a new one that finds no room is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_EPOCH = 2**31 - 1

MAX_SESSION_PARTITIONS = 10_000
"""Every ShareFetch of a session checks all of its partitions."""
MAX_CACHED_PARTITIONS = 100_000
"""Partitions of all sessions together. Each keeps a share-partition in memory."""

TopicIdPartition: TypeAlias = tuple[Uuid, int]


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(slots=True, eq=False)
class ShareSession:
    key: SessionKey
    connection: Hashable
    """The connection that opened the session."""
    epoch: int = INITIAL_EPOCH + 1
    """The epoch that the next request must carry."""
    partitions: OrderedDict[TopicIdPartition, bool] = field(default_factory=OrderedDict)
    """True: the next response includes the partition, even without records."""
    is_new: bool = True
    """The response to the request that opened the session includes every partition."""

    def must_include(self, tp: TopicIdPartition, error: int, size: int) -> bool:
        """Whether the response includes a partition; a partition that returned records moves to the back."""
        if self.is_new:
            return True
        changed = self.partitions.get(tp, False)
        if tp in self.partitions:
            # After an error the client must see that the error is over.
            self.partitions[tp] = error != 0
            if size:
                self.partitions.move_to_end(tp)
        return changed or size > 0 or error != 0


@dataclass(slots=True, eq=False)
class ShareSessionCache:
    _max_sessions: int
    evictions: int = 0
    """Sessions that ended because their connection was lost."""
    _sessions: dict[SessionKey, ShareSession] = field(default_factory=dict)
    _by_connection: dict[Hashable, dict[SessionKey, None]] = field(default_factory=dict)
    _members: dict[str, int] = field(default_factory=dict)
    """The number of sessions of each group."""
    partition_count: int = 0
    """The number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_members(self, group_id: str) -> bool:
        return group_id in self._members

    def open(
        self, key: SessionKey, partitions: Iterable[TopicIdPartition], connection: Hashable
    ) -> ShareSession:
        """Open a session, and drop an open one of the same member without releasing its records.

        Raises SHARE_SESSION_LIMIT_REACHED.
        """
        self.remove(key)
        session = ShareSession(key, connection, partitions=OrderedDict.fromkeys(partitions, False))
        if len(self._sessions) >= self._max_sessions:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"This broker has {self._max_sessions} share sessions. Raise group.share.max.share.sessions.",
            )
        self._require_room(len(session.partitions), len(session.partitions))
        self._sessions[key] = session
        self._by_connection.setdefault(connection, {})[key] = None
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        self.partition_count += len(session.partitions)
        return session

    def use(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a request, whose epoch increases by one unless the request closes it.

        Raises SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"Member {key.member_id} of group {key.group_id} has no share session on this broker.",
            )
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"The epoch of the share session is {session.epoch}, not {epoch}.",
            )
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.is_new = False
        return session

    def update(
        self,
        session: ShareSession,
        listed: Iterable[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
    ) -> None:
        """Add and remove partitions. Raises SHARE_SESSION_LIMIT_REACHED if they are too many."""
        partitions = session.partitions
        before = len(partitions)
        added = [tp for tp in dict.fromkeys(listed) if tp not in partitions]
        self._require_room(before + len(added), len(added))
        partitions.update((tp, True) for tp in added)
        for tp in forgotten:
            partitions.pop(tp, None)
        self.partition_count += len(partitions) - before

    def remove(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        self.partition_count -= len(session.partitions)
        keys = self._by_connection[session.connection]
        del keys[key]
        if not keys:
            del self._by_connection[session.connection]
        count = self._members.pop(key.group_id) - 1
        if count:
            self._members[key.group_id] = count
        return session

    def connection_lost(self, connection: Hashable) -> list[ShareSession]:
        """Remove the sessions of a connection."""
        keys = list(self._by_connection.get(connection, ()))
        self.evictions += len(keys)
        return [session for key in keys if (session := self.remove(key)) is not None]

    def clear(self) -> list[ShareSession]:
        """Remove all sessions: share groups are disabled."""
        return [session for key in list(self._sessions) if (session := self.remove(key)) is not None]

    def _require_room(self, size: int, added: int) -> None:
        if size > MAX_SESSION_PARTITIONS or self.partition_count + added > MAX_CACHED_PARTITIONS:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"A share session may have {MAX_SESSION_PARTITIONS} partitions, and all sessions of a broker "
                f"{MAX_CACHED_PARTITIONS}. Use fewer partitions, or more brokers.",
            )
