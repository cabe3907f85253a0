"""All groups at one time: members, committed offsets, and the end offsets of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.group_descriptions import CLASSIC, CONSUMER, SHARE, STREAMS, GroupDescription
from ruslo.client.admin.group_offsets import Committed
from ruslo.client.admin.groups import GroupListing
from ruslo.client.admin.share_group_offsets import ShareOffsets
from ruslo.client.views.group_lag import end_offsets
from ruslo.client.wire.coordinators import value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known

T = TypeVar("T")


class TopicReader(NamedTuple):
    """A group that reads a topic."""

    group_id: str
    state: str | None
    members: int
    """The number of members that subscribe to the topic or have partitions of it."""
    partitions: int
    """The number of partitions that are assigned or have an offset of the group."""
    lag: int | None
    """None without offsets."""


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    listed: Sequence[GroupListing]
    described: Mapping[str, GroupDescription]
    """The groups that could be described; others were deleted meanwhile or are not authorized."""
    committed: Mapping[str, Committed]
    ends: Mapping[TopicPartition, int]
    """End offsets of the partitions with committed offsets that exist and have a leader."""
    shared: Mapping[str, ShareOffsets] = field(default_factory=dict)
    """The offsets of share groups, which their brokers return with the lag."""

    def lag(self, group_id: str, topic: str | None = None) -> int | None:
        """The lag of a group, in all topics or in one."""
        if group_id in self.shared:
            return sum_known(
                each.lag for tp, each in self.shared[group_id].items() if topic in (None, tp.topic)
            )
        return sum_known(
            max(0, self.ends[tp] - each.offset)
            for tp, each in self.committed.get(group_id, {}).items()
            if tp in self.ends and topic in (None, tp.topic)
        )

    def readers(self, topic: str) -> list[TopicReader]:
        """The groups that read a topic or have offsets of it."""
        found = []
        for group in self.listed:
            offsets = {*self.committed.get(group.group_id, ()), *self.shared.get(group.group_id, ())}
            known = {tp for tp in offsets if tp.topic == topic}
            described = self.described.get(group.group_id)
            assigned: set[TopicPartition] = set()
            members = 0
            for member in () if described is None else described.members:
                own = {tp for tp in member.assignment or () if tp.topic == topic}
                assigned |= own
                members += bool(own) or topic in member.subscribed_topics
            if known or members:
                found.append(
                    TopicReader(
                        group.group_id,
                        group.state or (described.state if described else None),
                        members,
                        len(assigned | known),
                        self.lag(group.group_id, topic),
                    )
                )
        return found

    @property
    def unknown(self) -> int:
        """The number of groups of which neither members nor offsets are known."""
        return sum(
            group.group_id not in self.described
            and group.group_id not in self.committed
            and group.group_id not in self.shared
            for group in self.listed
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

    consumers = [group.group_id for group in listed if group.type in ("", CLASSIC, CONSUMER)]
    sharing = [group.group_id for group in listed if group.type == SHARE]
    streams = [group.group_id for group in listed if group.type == STREAMS]
    results: dict[str, GroupDescription | KafkaError] = {}
    results |= await admin.groups.describe(consumers, on_described)
    if sharing:
        results |= await admin.share_groups.describe(sharing)
    if streams:
        results |= await admin.streams_groups.describe(streams)
    on_described(len(sharing) + len(streams))
    described = {name: result for name, result in results.items() if isinstance(result, GroupDescription)}
    committed: dict[str, Committed] = {}
    shared: dict[str, ShareOffsets] = {}
    if with_lag:
        committed = _authorized(await admin.group_offsets.fetch_many(consumers + streams))
        if sharing:
            shared = _authorized(await admin.share_group_offsets.fetch_many(sharing))
    ends = await end_offsets(admin, {tp: None for offsets in committed.values() for tp in offsets})
    return GroupSurvey(listed, described, committed, ends, shared)


def _authorized(fetched: Mapping[str, T | KafkaError]) -> dict[str, T]:
    """The offsets of the groups that the caller may read; raises every other error."""
    return {
        name: value_of(offsets)
        for name, offsets in fetched.items()
        if not isinstance(offsets, KafkaError) or offsets.code not in _LEFT_OUT
    }


_LEFT_OUT = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_ID_NOT_FOUND)
"""Errors of groups that the caller must not read, or that were deleted after they had been listed."""
