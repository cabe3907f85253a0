"""Brokers with their log directories and leaderships, and the KRaft quorum."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.quorum import Quorum
from ruslo.client.views.broker_view import describe_brokers
from ruslo.console.console import Console, console_of
from ruslo.console.error_texts import error_text
from ruslo.console.snapshot import Snapshot
from ruslo.model.errors import KafkaError


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
