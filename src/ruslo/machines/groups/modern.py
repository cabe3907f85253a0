"""What consumer groups and share groups have in common: they assign partitions, by topic ids.

Kafka calls them modern groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.epoch_group import EpochGroup, MemberT
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.ids import Uuid

NOTHING: Partitions = {}


@dataclass(slots=True, eq=False)
class ModernGroup(EpochGroup[MemberT]):
    target: dict[str, Partitions] = field(default_factory=dict)
    """The target assignment by member id."""
    _topic_names: Counter[str] = field(default_factory=Counter)

    def changed_targets(
        self, member_ids: Iterable[str], result: Mapping[str, Partitions]
    ) -> Iterator[tuple[str, Partitions]]:
        """The members whose target differs from the current one."""
        for member_id in member_ids:
            target = result.get(member_id, NOTHING)
            if self.target.get(member_id) != target:
                yield member_id, target


def take_names(counts: Counter[str], names: Iterable[str]) -> None:
    """Count each of these names once less."""
    for name in names:
        if counts[name] > 1:
            counts[name] -= 1
        else:
            del counts[name]


def exchanged_names(counts: Counter[str], old: Iterable[str], new: Iterable[str]) -> Counter[str]:
    """The counts without the old names and with the new ones."""
    changed = Counter(counts)
    take_names(changed, old)
    changed.update(new)
    return changed


def existing_topic_ids(names: Iterable[str], view: TopicsView) -> frozenset[Uuid]:
    """The ids of the topics that exist."""
    return frozenset(topic.id for name in names if (topic := view.by_name(name)) is not None)
