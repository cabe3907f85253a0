"""The state of one shard: its groups and offsets, and its soft state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from ruslo.machines.assignors.streams.builtin import BUILTIN_TASK_ASSIGNORS
from ruslo.machines.groups.offsets.store import OffsetStore
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.timers import TimerKey
from ruslo.machines.groups.topics_view import NoTopics, TopicsView
from ruslo.machines.timers import Timers
from ruslo.model.ids import Uuid, random_uuid

if TYPE_CHECKING:
    from ruslo.machines.assignors.streams.model import TaskAssignor
    from ruslo.machines.groups.consumer.ports import AssignorPort
    from ruslo.machines.groups.group import Group
    from ruslo.machines.groups.share.pending import PendingRequest


class ShardState:
    """The one object that every module of the machine reads and changes."""

    def __init__(
        self,
        settings: GroupSettings,
        assignors: AssignorPort,
        topics: TopicsView | None = None,
        random_uuid: Callable[[], Uuid] = random_uuid,
        task_assignors: Mapping[str, TaskAssignor] = BUILTIN_TASK_ASSIGNORS,
    ) -> None:
        self.settings = settings
        self.assignors = assignors
        self.task_assignors = task_assignors
        self.topics: TopicsView = NoTopics() if topics is None else topics
        self._random_uuid = random_uuid
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.timers: Timers[TimerKey] = Timers()
        self.share_requests: dict[Hashable, PendingRequest] = {}
        """Requests that wait for the share coordinator, by token."""
        self.share_retries_ms: dict[str, dict[Uuid, int]] = {}
        """By share group and topic id: when partitions that are still initializing are initialized again."""
        self.active = False
        """Whether the shard is loaded. Before that only ``replay`` is called, and there is no soft state."""
        self.wall_ms = 0
        """The wall-clock time of the current event, for records."""
        self.next_offset = 0
        """The log offset after the last replayed record."""

    def new_uuid(self) -> str:
        """A random uuid in the dashed form of member ids."""
        return str(UUID(bytes=self._random_uuid()))
