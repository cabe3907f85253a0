"""Distributes the replicas of a task over the values of client tags, or over racks (KIP-708)."""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.machines.assignors.streams.loads import bits
from ruslo.machines.assignors.streams.model import GroupSpec
from ruslo.machines.assignors.streams.placement import Placement

RACK = "rack"


class TagSpread:
    def __init__(self, group: GroupSpec, placement: Placement) -> None:
        tags_of: list[Mapping[str, str]] = [{} for _ in placement.members_of]
        for number, member in enumerate(group.members.values()):
            if group.rack_aware_tags:
                tags = member.client_tags
            else:
                tags = {RACK: member.rack_id} if member.rack_id else {}
            tags_of[placement.process_of[number]] = tags
        self._keys: list[_Tag] = []
        for key in group.rack_aware_tags or (RACK,):
            tag = _Tag([tags.get(key) for tags in tags_of])
            if tag.value_count > 1:
                self._keys.append(tag)

    def allowed(self, candidates: int, holders: int) -> int:
        """The candidates that differ from all holders of the task in every tag.

        A tag with at most as many values as there are holders is ignored. If no candidate is left, the last
        tags are ignored one by one, so the first tags matter most.
        """
        holder_count = holders.bit_count()
        allowed = candidates
        for tag in self._keys:
            if tag.value_count <= holder_count:
                continue
            remaining = allowed & ~tag.with_values_of(holders)
            if not remaining:
                break
            allowed = remaining
        return allowed


class _Tag:
    def __init__(self, values: list[str | None]) -> None:
        """``values``: the value of each process."""
        processes: dict[str, int] = {}
        for process, value in enumerate(values):
            if value is not None:
                processes[value] = processes.get(value, 0) | 1 << process
        self.value_count = len(processes)
        self._same_value = [0 if value is None else processes[value] for value in values]

    def with_values_of(self, holders: int) -> int:
        """The set of the processes whose value one of the holders has."""
        found = 0
        for process in bits(holders):
            found |= self._same_value[process]
        return found
