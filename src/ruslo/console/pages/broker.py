"""One broker: its log directories and replicas."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.console.console import console_of
from ruslo.console.forms import Form
from ruslo.console.pages.brokers import disks_of
from ruslo.console.paging import paged
from ruslo.console.snapshot import Snapshot
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

_PER_PAGE = 200


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
        each for each in held if search.lower() in each.partition.topic.lower() and _is_wanted(each, only)
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
        used_bytes=_sum_known(held),
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


def _is_wanted(replica: Replica, only: Only) -> bool:
    match only:
        case Only.LED:
            return replica.leads
        case Only.OUT_OF_SYNC:
            return not replica.is_in_sync
        case Only.ALL:
            return True


def _sum_known(held: list[Replica]) -> int | None:
    known = [each.size_bytes for each in held if each.size_bytes is not None]
    return sum(known) if known else None
