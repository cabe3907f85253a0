"""All groups at one moment: who is in them, what they have committed, and where the partitions end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ruslo.client.admin.group_descriptions import CLASSIC, CONSUMER, GroupDescription
from ruslo.client.admin.group_offsets import Committed
from ruslo.client.views.group_lag import end_offsets
from ruslo.client.wire.coordinators import value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.groups import GroupListing


class TopicReader(NamedTuple):
    """A group as one of its topics sees it."""

    group_id: str
    state: str | None
    members: int
    """Those that subscribe to the topic, or have partitions of it."""
    partitions: int
    """Committed or assigned."""
    lag: int | None
    """None when nothing is committed."""


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    listed: Sequence[GroupListing]
    described: Mapping[str, GroupDescription]
    """Those that could be: a group may go while we ask, or be hidden from us, or be of another kind."""
    committed: Mapping[str, Committed]
    ends: Mapping[TopicPartition, int]
    """Next offsets of the committed partitions that exist and have a leader."""

    def lag(self, group_id: str) -> int | None:
        return self._lag(self.committed.get(group_id, {}))

    def readers(self, topic: str) -> list[TopicReader]:
        """The groups that read a topic, or did and have not forgotten where they were."""
        found = []
        for group in self.listed:
            committed = {
                place: each
                for place, each in self.committed.get(group.group_id, {}).items()
                if place.topic == topic
            }
            described = self.described.get(group.group_id)
            assigned: set[TopicPartition] = set()
            members = 0
            for member in () if described is None else described.members:
                own = {place for place in member.assignment or () if place.topic == topic}
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
    def untold(self) -> int:
        """Groups of which nobody tells us what they read."""
        return sum(
            group.group_id not in self.described and group.group_id not in self.committed
            for group in self.listed
        )

    def _lag(self, committed: Committed) -> int | None:
        known = [
            max(0, self.ends[place] - each.offset) for place, each in committed.items() if place in self.ends
        ]
        return sum(known) if known else None


async def survey_groups(
    admin: Admin,
    *,
    states: Iterable[str] = (),
    types: Iterable[str] = (),
    with_lag: bool = True,
    on_progress: Callable[[int, int], None] = lambda known, total: None,
) -> GroupSurvey:
    """``on_progress`` hears how many of how many groups are described."""
    listed = await admin.groups.list(states=states, types=types)
    known = 0

    def on_answers(count: int) -> None:
        nonlocal known
        known += count
        on_progress(known, len(listed))

    describable = [group.group_id for group in listed if group.type in ("", CLASSIC, CONSUMER)]
    answers = await admin.groups.describe(describable, on_answers)
    described = {name: answer for name, answer in answers.items() if isinstance(answer, GroupDescription)}
    committed: dict[str, Committed] = {}
    if with_lag:
        fetched = await admin.group_offsets.fetch_many(describable)
        committed = {name: value_of(offsets) for name, offsets in fetched.items() if not _is_hidden(offsets)}
    ends = await end_offsets(admin, {place: None for of in committed.values() for place in of})
    return GroupSurvey(listed, described, committed, ends)


def _is_hidden(answer: object) -> bool:
    """Whether a group is there for others, but not for us; that must not hide the groups that are."""
    return isinstance(answer, KafkaError) and answer.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
