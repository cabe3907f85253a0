"""All groups at one time: members, committed offsets, and the end offsets of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.group_descriptions import CLASSIC, CONSUMER, GroupDescription
from ruslo.client.admin.group_offsets import Committed
from ruslo.client.admin.groups import GroupListing
from ruslo.client.views.group_lag import end_offsets
from ruslo.client.wire.coordinators import value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known


class TopicReader(NamedTuple):
    """A group that reads a topic."""

    group_id: str
    state: str | None
    members: int
    """The number of members that subscribe to the topic or have partitions of it."""
    partitions: int
    """The number of partitions that are assigned or have a committed offset."""
    lag: int | None
    """None without committed offsets."""


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    listed: Sequence[GroupListing]
    described: Mapping[str, GroupDescription]
    """The groups that could be described; others were deleted meanwhile, are not authorized, or have another
    type."""
    committed: Mapping[str, Committed]
    ends: Mapping[TopicPartition, int]
    """End offsets of the partitions with committed offsets that exist and have a leader."""

    def lag(self, group_id: str) -> int | None:
        return self._lag(self.committed.get(group_id, {}))

    def readers(self, topic: str) -> list[TopicReader]:
        """The groups that read a topic or have committed offsets of it."""
        found = []
        for group in self.listed:
            committed = {
                tp: each for tp, each in self.committed.get(group.group_id, {}).items() if tp.topic == topic
            }
            described = self.described.get(group.group_id)
            assigned: set[TopicPartition] = set()
            members = 0
            for member in () if described is None else described.members:
                own = {tp for tp in member.assignment or () if tp.topic == topic}
                assigned |= own
                members += bool(own) or topic in member.subscribed_topics
            if committed or members:
                found.append(
                    TopicReader(
                        group.group_id,
                        group.state or (described.state if described else None),
                        members,
                        len(assigned | committed.keys()),
                        self._lag(committed),
                    )
                )
        return found

    @property
    def unknown(self) -> int:
        """The number of groups of which neither members nor offsets are known."""
        return sum(
            group.group_id not in self.described and group.group_id not in self.committed
            for group in self.listed
        )

    def _lag(self, committed: Committed) -> int | None:
        return sum_known(
            max(0, self.ends[tp] - each.offset) for tp, each in committed.items() if tp in self.ends
        )


async def survey_groups(
    admin: Admin,
    *,
    states: Iterable[str] = (),
    types: Iterable[str] = (),
    with_lag: bool = True,
    on_progress: Callable[[int, int], None] = lambda known, total: None,
) -> GroupSurvey:
    """``on_progress`` gets the number of described groups and the number of all groups."""
    listed = await admin.groups.list(states=states, types=types)
    known = 0

    def on_described(count: int) -> None:
        nonlocal known
        known += count
        on_progress(known, len(listed))

    describable = [group.group_id for group in listed if group.type in ("", CLASSIC, CONSUMER)]
    results = await admin.groups.describe(describable, on_described)
    described = {name: result for name, result in results.items() if isinstance(result, GroupDescription)}
    committed: dict[str, Committed] = {}
    if with_lag:
        fetched = await admin.group_offsets.fetch_many(describable)
        committed = {
            name: value_of(offsets) for name, offsets in fetched.items() if not _is_unauthorized(offsets)
        }
    ends = await end_offsets(admin, {tp: None for offsets in committed.values() for tp in offsets})
    return GroupSurvey(listed, described, committed, ends)


def _is_unauthorized(result: object) -> bool:
    return isinstance(result, KafkaError) and result.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
