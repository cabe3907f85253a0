"""A group with its members, committed offsets and lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource
from ruslo.client.admin.group_descriptions import CONSUMER, GroupDescription
from ruslo.client.views.group_lag import NOT_COMMITTED, measure_lag
from ruslo.client.views.group_survey import GroupSurvey, survey_groups
from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.client.wire.coordinators import value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known

ASSIGNOR_ERROR = "ruslo.assignor.error"
"""A read-only config of a group, reported by Ruslo's coordinators: the last error of the assignor."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A row of ``group list``."""

    group_id: str
    type: str | None
    state: str | None
    protocol: str | None
    members: int | None
    """None if the caller may not describe the group."""
    coordinator: int
    lag: int | None
    """None when it was not requested, or without committed offsets."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A row of ``group describe``."""

    topic: str
    partition: int
    committed_offset: int | None
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    metadata: str | None
    member_id: str | None
    client_id: str | None
    host: str | None
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class GroupView:
    description: GroupDescription
    coordinator_address: str
    assignor_error: str | None
    partitions: tuple[PartitionRow, ...]

    @property
    def lag(self) -> int | None:
        return sum_known(row.lag for row in self.partitions)

    @property
    def lag_seconds(self) -> float | None:
        """The lag of the partition that is furthest behind."""
        return max((row.lag_seconds for row in self.partitions if row.lag_seconds is not None), default=None)

    def as_json(self) -> dict[str, object]:
        group = self.description
        return {
            **head_json(group),
            "assignor_error": self.assignor_error,
            "lag": self.lag,
            "lag_seconds": self.lag_seconds,
            "partitions": [asdict(row) for row in self.partitions],
        }


async def list_rows(
    admin: Admin,
    *,
    states: Iterable[str] = (),
    types: Iterable[str] = (),
    with_lag: bool = False,
    on_progress: Callable[[int, int], None] = lambda known, total: None,
) -> list[GroupRow]:
    """``on_progress`` gets the number of described groups and the number of all groups."""
    return rows_of(
        await survey_groups(admin, states=states, types=types, with_lag=with_lag, on_progress=on_progress)
    )


def rows_of(survey: GroupSurvey) -> list[GroupRow]:
    rows = []
    for listed in survey.listed:
        found = survey.described.get(listed.group_id)
        rows.append(
            GroupRow(
                listed.group_id,
                listed.type or (found.type if found else None),
                listed.state or (found.state if found else None),
                listed.protocol_type or None,
                len(found.members) if found else None,
                listed.coordinator_id,
                survey.lag(listed.group_id),
            )
        )
    return rows


async def describe_group(admin: Admin, group_id: str) -> GroupView:
    return await view_of(admin, await describe_one(admin, group_id))


async def view_of(admin: Admin, description: GroupDescription) -> GroupView:
    return GroupView(
        description,
        await coordinator_address(admin, description),
        await _assignor_error(admin, description),
        await partition_rows(admin, description),
    )


async def coordinator_address(admin: Admin, group: GroupDescription) -> str:
    node = (await admin.cluster.metadata([])).nodes.get(group.coordinator_id)
    return "" if node is None else node.address


async def partition_rows(admin: Admin, group: GroupDescription) -> tuple[PartitionRow, ...]:
    """The partitions that the group has committed offsets for, and those that are assigned."""
    committed = await admin.group_offsets.fetch(group.group_id)
    owners = group.owners()
    offsets = dict.fromkeys(owners, NOT_COMMITTED) | {tp: each.offset for tp, each in committed.items()}
    lags = await measure_lag(admin, offsets)
    rows = []
    for partition in sorted(offsets):
        owner, commit, lag = owners.get(partition), committed.get(partition), lags[partition]
        rows.append(
            PartitionRow(
                *partition,
                None if commit is None else commit.offset,
                lag.end_offset,
                lag.records,
                lag.seconds,
                None if commit is None else commit.metadata,
                *(
                    (None,) * 4
                    if owner is None
                    else (owner.member_id, owner.client_id, owner.host, owner.instance_id)
                ),
            )
        )
    return tuple(rows)


async def describe_one(admin: Admin, group_id: str) -> GroupDescription:
    return value_of((await admin.groups.describe([group_id]))[group_id])


async def _assignor_error(admin: Admin, group: GroupDescription) -> str | None:
    if group.type != CONSUMER:
        return None
    try:
        entries = await admin.configs.describe(
            Resource.group(group.group_id), [ASSIGNOR_ERROR], node_id=group.coordinator_id
        )
    except KafkaError as error:
        # Brokers other than Ruslo's do not have this config, or no configs of groups at all.
        if error.code in _ASSIGNOR_ERROR_UNAVAILABLE:
            return None
        raise
    return next((entry.value or None for entry in entries if entry.name == ASSIGNOR_ERROR), None)


_ASSIGNOR_ERROR_UNAVAILABLE = (
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


def members_json(group: GroupDescription) -> dict[str, object]:
    return {
        **head_json(group),
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "protocol": member.protocol,
                "epoch": member.epoch,
                "subscribed_topics": list(member.subscribed_topics),
                "subscribed_regex": member.subscribed_regex,
                "assignment": _by_topic(member.assignment),
                "target_assignment": _by_topic(member.target),
            }
            for member in group.members
        ],
    }


def head_json(group: GroupDescription) -> dict[str, object]:
    return {
        "group_id": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol_type or None,
        "assignor": group.assignor,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "coordinator": group.coordinator_id,
        "member_count": len(group.members),
    }


def _by_topic(partitions: tuple[TopicPartition, ...] | None) -> Mapping[str, list[int]] | None:
    return None if partitions is None else indexes_by_topic(partitions)
