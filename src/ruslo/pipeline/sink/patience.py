"""A cluster whose brokers may just be restarting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ruslo.client.wire.cluster import Cluster
from ruslo.net.errors import BrokerUnreachable
from ruslo.pipeline.client_properties import ClientProperties

_PAUSE_S = 0.25


@asynccontextmanager
async def reached_cluster(client: ClientProperties) -> AsyncIterator[Cluster]:
    """A client that has reached a broker; waits for one as long as requests may be retried.

    Whoever types a wrong address wants to hear it at once, but a query that has run for days should survive
    a restart of its brokers: by the time a sink connects, the source has reached them.
    """
    async with client.new_cluster() as cluster:
        deadline = time.monotonic() + client.api_timeout_ms / 1000
        while True:
            try:
                await cluster.metadata([])
                break
            except BrokerUnreachable:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_PAUSE_S)
        yield cluster
