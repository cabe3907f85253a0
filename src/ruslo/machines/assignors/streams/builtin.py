"""The built-in task assignors by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ruslo.machines.assignors.streams.highly_available import HighlyAvailableTaskAssignor
from ruslo.machines.assignors.streams.model import TaskAssignor
from ruslo.machines.assignors.streams.sticky import StickyTaskAssignor

_ALL: tuple[TaskAssignor, ...] = (StickyTaskAssignor(), HighlyAvailableTaskAssignor())
BUILTIN_TASK_ASSIGNORS: Mapping[str, TaskAssignor] = MappingProxyType(
    {assignor.name: assignor for assignor in _ALL}
)
