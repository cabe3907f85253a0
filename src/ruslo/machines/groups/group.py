"""The interface of every type of group, for offsets, admin APIs and expiration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.errors import ErrorCode, KafkaError

CLASSIC = "classic"
CONSUMER = "consumer"
STREAMS = "streams"
SHARE = "share"

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of groups whose subscriptions the coordinator can read."""
STREAMS_PROTOCOL = "streams"


def not_found(group_id: str, group: object = None, kind: str = "") -> str:
    """Kafka's words, which its tools show: there is no such group, or ``group`` is not one of that kind."""
    return f"Group {group_id} not found." if group is None else f"Group {group_id} is not a {kind} group."


def not_found_error(group_id: str, group: object = None, kind: str = "") -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, not_found(group_id, group, kind))


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


class Committer(NamedTuple):
    """The member that commits offsets, as the request names it."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The member epoch, or the generation of a classic group; negative: none."""
    api_version: int
    transactional: bool
    """Whether the request is TxnOffsetCommit."""
    partitions: Callable[[], Iterable[tuple[TopicInfo, int]]]
    """The committed topics and partitions; called only if the check needs them."""

    @property
    def is_anonymous_transaction(self) -> bool:
        """Whether a transaction commits without naming a member."""
        return self.transactional and self.epoch == -1 and not self.member_id and self.instance_id is None


@dataclass(slots=True, eq=False)
class Group(ABC):
    """One group of any type. There is no state Dead: a deleted group is not in the shard."""

    kind: ClassVar[str]
    """The type in ListGroups: ``classic``, ``consumer`` …."""
    expires: ClassVar[bool] = True
    """Whether the group is removed when it is empty and all of its offsets have expired."""

    group_id: str

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The protocol type in ListGroups."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state in ListGroups: ``Empty``, ``Stable`` …"""

    @property
    @abstractmethod
    def member_count(self) -> int: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members, so it may be deleted, converted or expire."""

    @abstractmethod
    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; True if the coordinator cannot know."""

    @abstractmethod
    def tombstones(self) -> list[GroupRecord]:
        """The tombstones of the group itself; those of its offsets precede them."""

    @abstractmethod
    def check_offset_commit(self, committer: Committer) -> ErrorCode:
        """The error of a commit, the same for all of its partitions."""

    @abstractmethod
    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """The error of a member that fetches offsets (OffsetFetch v9+)."""

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode:
        """The error of deleting offsets of topics without subscribers."""

    @abstractmethod
    def retention_start_ms(self, topic: str, commit_ms: int) -> int | None:
        """The wall-clock time at which an offset's retention starts; None: it does not expire now."""
