"""What every kind of group has in common, as the offsets, the admin APIs and the sweeps see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, NamedTuple

from ruslo.machines.groups.records import GroupRecord
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid

CLASSIC = "classic"
CONSUMER = "consumer"

CONSUMER_PROTOCOL = "consumer"
"""Protocol type of groups whose members subscribe to topics in the way that the coordinator can read."""


class Committer(NamedTuple):
    """Who commits offsets, as it says itself."""

    member_id: str
    instance_id: str | None
    epoch: int
    """Member epoch, or generation of a classic group; negative: none."""
    api_version: int
    transactional: bool
    """TxnOffsetCommit instead of OffsetCommit."""
    partitions: Callable[[], Iterable[tuple[Uuid, int]]]
    """What is committed: topic id and partition. Called only where the answer depends on it."""


class Group(ABC):
    """One group, of whatever kind. Dead groups do not exist: they are no longer in the shard."""

    __slots__ = ("group_id",)

    kind: ClassVar[str]
    """As ListGroups calls it: ``classic``, ``consumer``."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """As ListGroups shows it."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As ListGroups shows it: ``Empty``, ``Stable`` …"""

    @property
    @abstractmethod
    def member_count(self) -> int: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """No members: the group may be deleted, converted, or expire."""

    @abstractmethod
    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic, so far as the coordinator can tell."""

    @abstractmethod
    def tombstones(self) -> list[GroupRecord]:
        """What ends the group; those of its offsets come before."""

    @abstractmethod
    def check_offset_commit(self, committer: Committer) -> ErrorCode:
        """Whether this commit is accepted; one code for all of its partitions."""

    @abstractmethod
    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether this member may read offsets (OffsetFetch v9+)."""

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode:
        """Whether offsets of topics without subscribers may be deleted."""

    @abstractmethod
    def retention_start_ms(self, topic: str, commit_ms: int) -> int | None:
        """Wall-clock time from which an offset's retention counts; None: it is kept for now."""
