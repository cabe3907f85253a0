"""Validates the result of an assignor: a user's assignor may return anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.assignors.spec import AssignorError, GroupSpec, Partitions
from ruslo.model.ids import Uuid, uuid_to_text


def checked(group: GroupSpec, assignment: object) -> dict[str, Partitions]:
    """The assignment in the form of the coordinator. Raises AssignorError if it is invalid."""
    if not isinstance(assignment, Mapping):
        raise AssignorError(f"returned {_kind(assignment)}, not a mapping of member ids")
    owners: dict[tuple[Uuid, int], str] = {}
    result: dict[str, Partitions] = {}
    for member_id, topics in assignment.items():
        member = group.members.get(member_id) if isinstance(member_id, str) else None
        if member is None:
            raise AssignorError(f"assigned partitions to {member_id!r}, which is not a member of the group")
        if not isinstance(topics, Mapping):
            raise AssignorError(f"gave member {member_id!r} {_kind(topics)}, not a mapping of topic ids")
        of_member: dict[Uuid, frozenset[int]] = {}
        for topic_id, partitions in topics.items():
            topic = group.topics.get(topic_id) if isinstance(topic_id, bytes) else None
            if topic is None:
                raise AssignorError(f"assigned a topic that no member subscribes to: {_topic_text(topic_id)}")
            if topic_id not in member.subscribed_topic_ids:
                raise AssignorError(
                    f"gave member {member_id!r} topic {topic.name!r}, which it does not subscribe to"
                )
            if not isinstance(partitions, Iterable):
                raise AssignorError(f"gave {_kind(partitions)} as the partitions of {topic.name!r}")
            kept = []
            for partition in partitions:
                if type(partition) is not int or not 0 <= partition < topic.partition_count:
                    raise AssignorError(
                        f"assigned {topic.name}-{partition!r}; the topic has partitions 0 to "
                        f"{topic.partition_count - 1}"
                    )
                owner = owners.setdefault((topic_id, partition), member_id)
                if owner != member_id:
                    raise AssignorError(
                        f"assigned {topic.name}-{partition} to both {owner!r} and {member_id!r}"
                    )
                kept.append(partition)
            if kept:
                of_member[topic_id] = frozenset(kept)
        result[member_id] = of_member
    _check_complete(group, owners)
    return result


def _check_complete(group: GroupSpec, owners: Mapping[tuple[Uuid, int], str]) -> None:
    for topic_id, subscribers in group.subscribers().items():
        topic = group.topics[topic_id]
        if not subscribers:
            continue
        for partition in range(topic.partition_count):
            if (topic_id, partition) not in owners:
                raise AssignorError(f"did not assign {topic.name}-{partition} to any member")


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def _topic_text(topic_id: object) -> str:
    if isinstance(topic_id, bytes) and len(topic_id) == 16:
        return uuid_to_text(topic_id)
    return repr(topic_id)
