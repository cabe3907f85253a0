"""The health of a cluster, its problems, and the records that its brokers report as lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource
from ruslo.client.views.partition_health import Risk, count_risks, partitions_at_risk

_MAX_LOST_DATA_LINES = 5
LOST_DATA = "ruslo.lost.data"


class ClusterHealth(NamedTuple):
    problems: list[str]
    """The problems in words, the worst first; empty when the cluster is healthy."""
    controller: int | None
    brokers: int
    fenced_brokers: list[int]
    partitions: int
    at_risk: dict[str, int]
    """The number of partitions by risk, including risks that count as healthy."""
    failed_log_directories: int
    lost_data: tuple[str, ...] = ()
    """One line per damaged offset range that a broker reports."""

    @property
    def healthy(self) -> bool:
        return not self.problems

    @property
    def sentence(self) -> str:
        if self.problems:
            return f"Not healthy: {'; '.join(self.problems)}."
        return (
            f"Healthy: {_counted(self.brokers, 'broker')}, {_counted(self.partitions, 'partition')}, "
            f"controller {self.controller}."
        )


async def cluster_health(admin: Admin, least: Risk = Risk.UNDER_REPLICATED) -> ClusterHealth:
    """``least`` is the lowest risk of a partition that makes the cluster unhealthy."""
    description = await admin.brokers.describe_cluster()
    leader_id = (await admin.quorum.describe()).leader_id
    topics = await admin.topics.list()
    at_risk = await partitions_at_risk(admin, topics)
    failed_directories = 0
    for node, fenced in description.brokers:
        if not fenced:
            directories = await admin.log_dirs.describe(node.id)
            failed_directories += sum(each.error is not None for each in directories)
    fenced_brokers = [node.id for node, fenced in description.brokers if fenced]
    lost = await lost_data(admin, [node.id for node, fenced in description.brokers if not fenced])
    counted = count_risks(each for each in at_risk if each.risk >= least)
    return ClusterHealth(
        problems=list(_problems(leader_id, counted, failed_directories, fenced_brokers, lost)),
        controller=leader_id if leader_id >= 0 else None,
        brokers=len(description.brokers),
        fenced_brokers=fenced_brokers,
        partitions=sum(len(topic.partitions) for topic in topics),
        at_risk=count_risks(at_risk),
        failed_log_directories=failed_directories,
        lost_data=tuple(lost),
    )


def _problems(
    leader_id: int,
    at_risk: Mapping[str, int],
    failed_directories: int,
    fenced_brokers: Sequence[int],
    lost: Sequence[str],
) -> Iterator[str]:
    if leader_id < 0:
        yield "no active controller"
    yield from (f"records are lost on {line}" for line in lost[:_MAX_LOST_DATA_LINES])
    if len(lost) > _MAX_LOST_DATA_LINES:
        yield f"{len(lost) - _MAX_LOST_DATA_LINES} more ranges of lost records"
    for label, count in at_risk.items():
        if count:
            yield f"{_counted(count, 'partition')} {label}"
    if failed_directories:
        yield f"{_counted(failed_directories, 'log directory', 'log directories')} failed"
    if fenced_brokers:
        yield f"fenced: broker {', '.join(map(str, fenced_brokers))}"


def _counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


async def lost_data(admin: Admin, brokers: Iterable[int]) -> list[str]:
    """One line per damaged offset range of the given brokers, which must not be fenced."""
    lines = []
    for broker_id in brokers:
        entries = await admin.configs.describe(Resource.broker(broker_id), [LOST_DATA])
        found = next((entry.value or "" for entry in entries if entry.name == LOST_DATA), "")
        lines += [f"broker {broker_id}: {line}" for line in found.splitlines()]
    return lines
