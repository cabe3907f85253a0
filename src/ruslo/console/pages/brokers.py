"""Brokers with their log directories and leaderships, the KRaft quorum, and a single broker with replicas."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.quorum import Quorum
from ruslo.client.views.broker_view import describe_brokers
from ruslo.console.console import Console, console_of
from ruslo.console.error_texts import error_text
from ruslo.console.forms import Form, paged
from ruslo.console.snapshot import Snapshot
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known

_PER_PAGE = 200


class Disk(NamedTuple):
    path: str
    used_bytes: int
    total_bytes: int | None
    """None if the broker is too old to report it (KIP-827)."""
    usable_bytes: int | None
    error: str | None

    @property
    def filled_percent(self) -> float | None:
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 100 * (self.total_bytes - self.usable_bytes) / self.total_bytes


async def brokers(request: Request) -> Response:
    console = console_of(request)
    snapshot = await console.sampler.fresh()
    views, quorum = await asyncio.gather(describe_brokers(console.admin), _quorum(console))
    return console.page(
        request,
        "brokers.html",
        brokers=views,
        controller_id=quorum.leader_id if isinstance(quorum, Quorum) else None,
        disks={view.node.id: disks_of(snapshot, view.node.id) for view in views},
        round_trips=snapshot.round_trips_ms,
        quorum=quorum if isinstance(quorum, Quorum) else None,
        quorum_problem=quorum if isinstance(quorum, str) else None,
        racks=sorted({view.node.rack for view in views if view.node.rack}),
    )


async def _quorum(console: Console) -> Quorum | str:
    try:
        return await console.admin.quorum.describe()
    except KafkaError as error:
        return error_text(error)


def disks_of(snapshot: Snapshot, node_id: int) -> list[Disk]:
    return [
        Disk(
            each.path,
            sum(replica.size_bytes for replica in each.replicas),
            each.total_bytes if each.total_bytes >= 0 else None,
            each.usable_bytes if each.usable_bytes >= 0 else None,
            None if each.error is None else error_text(each.error),
        )
        for each in snapshot.directories.get(node_id, ())
    ]


class Only(enum.StrEnum):
    ALL = "all"
    LED = "led"
    OUT_OF_SYNC = "out-of-sync"


class Replica(NamedTuple):
    partition: TopicPartition
    is_internal: bool
    leads: bool
    is_in_sync: bool
    is_preferred: bool
    """Whether this broker is the partition's preferred leader."""
    leader_id: int
    size_bytes: int | None
    """None if the broker does not report its log directories."""


async def broker(request: Request) -> Response:
    console, node_id = console_of(request), int(request.path_params["node"])
    query = Form.of_query(request.query_params)
    snapshot = await console.sampler.fresh()
    described = await console.admin.brokers.describe_cluster()
    found = next((each for each in described.brokers if each.node.id == node_id), None)
    if found is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} does not exist")
    search, only = query.text("q"), Only(query.choice("only", list(Only), Only.ALL))
    held = list(_replicas(snapshot, node_id))
    wanted = [
        each
        for each in held
        if search.lower() in each.partition.topic.lower()
        and {Only.LED: each.leads, Only.OUT_OF_SYNC: not each.is_in_sync}.get(only, True)
    ]
    return console.page(
        request,
        "broker.html",
        node=found.node,
        fenced=found.fenced,
        disks=disks_of(snapshot, node_id),
        held=len(held),
        led=sum(each.leads for each in held),
        out_of_sync=sum(not each.is_in_sync for each in held),
        used_bytes=sum_known(each.size_bytes for each in held),
        shown=paged(sorted(wanted, key=lambda each: (each.is_internal, each.partition)), query, _PER_PAGE),
        search=search,
        only=only,
    )


def _replicas(snapshot: Snapshot, node_id: int) -> Iterator[Replica]:
    sizes = {
        replica.partition: replica.size_bytes
        for directory in snapshot.directories.get(node_id, ())
        for replica in directory.replicas
        if not replica.is_future
    }
    for topic in snapshot.topics.values():
        for each in topic.partitions:
            if node_id in each.replicas:
                tp = TopicPartition(topic.name, each.partition)
                yield Replica(
                    tp,
                    topic.internal,
                    each.leader_id == node_id,
                    node_id in each.isr,
                    each.replicas[0] == node_id,
                    each.leader_id,
                    sizes.get(tp),
                )
