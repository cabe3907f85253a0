"""A connection to a cluster whose brokers may be restarting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ruslo.client.wire.cluster import Cluster
from ruslo.net.errors import BrokerUnreachable
from ruslo.pipeline.client_properties import ClientProperties

_RETRY_BACKOFF_S = 0.25


@asynccontextmanager
async def reachable_cluster(client: ClientProperties) -> AsyncIterator[Cluster]:
    """A client that has reached a broker; retries for ``default.api.timeout.ms``.

    A wrong address is reported at once by the source. By the time a sink connects, the source has reached the
    brokers, so an unreachable broker is probably restarting and the query should survive that.
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
            await asyncio.sleep(_RETRY_BACKOFF_S)
        yield cluster
