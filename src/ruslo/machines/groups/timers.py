"""The timers of a group shard."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TimerKind(enum.IntEnum):
    SESSION = 0
    """The member is removed unless it sends a heartbeat first."""
    JOIN = 1
    """A classic group's rebalance timeout: members that have not rejoined are removed."""
    INITIAL_DELAY = 2
    """An empty classic group waits for more members before its first rebalance."""
    SYNC = 3
    """Members of a classic group that have not sent SyncGroup are removed."""
    PENDING = 4
    """A member id was assigned, and its member has not joined with it yet."""
    ADOPT = 5
    """A consumer group was downgraded to a classic group: its sessions and a rebalance start."""
    SWEEP = 6
    """Offsets and groups expire (no group id)."""
    TOPICS_DELETED = 7
    """Offsets of deleted topics are still to be removed (no group id)."""
    REBALANCE = 8
    """A consumer group's member that has not revoked its partitions is fenced (KIP-848)."""
    REGEX = 9
    """A consumer group's regular expressions are resolved again."""
    ASSIGNMENT = 10
    """A consumer group's next target assignment may be computed."""
    SHARE_TOPICS_DELETED = 11
    """States of deleted topics are still to be removed from a share group."""
    ADOPT_STABLE = 12
    """A consumer group was downgraded with its current assignment: the sessions of its members start."""


class TimerKey(NamedTuple):
    group_id: str
    member_id: str | None
    kind: TimerKind
