"""The process of a connection storm, until SIGTERM: ``python -m bench.storm '{"SSL": "127.0.0.1:9093"}'``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import ssl
import sys
import time
from itertools import cycle

import uvloop

from bench.quota_scenario import log_in
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from tests.support.clients.raw_client import RawClient

AT_ONCE = 100


class Storm:
    def __init__(self, addresses: dict[str, str]) -> None:
        self._targets = cycle(addresses.items())
        self._context = ssl.create_default_context()
        # What the broker does is the same, and the certificates of the bench protect nothing.
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self.connects = 0

    async def rage(self) -> None:
        while True:
            protocol, address = next(self._targets)
            with contextlib.suppress(OSError, EOFError):
                await self._connect(protocol, address)
                self.connects += 1

    async def _connect(self, protocol: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        context = self._context if protocol.endswith("SSL") else None
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        try:
            client = RawClient(reader, writer)
            if protocol.startswith("SASL"):
                await log_in(client)
            await client.call(ApiVersionsRequest(), ApiVersionsResponse, 3)
        finally:
            writer.transport.abort()


async def main(addresses: dict[str, str]) -> None:
    storm, over = Storm(addresses), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    begun_s = time.monotonic()
    tasks = [asyncio.create_task(storm.rage()) for _ in range(AT_ONCE)]
    await over.wait()
    figures = {"connects": storm.connects, "seconds": time.monotonic() - begun_s}
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    print(json.dumps(figures))


if __name__ == "__main__":
    uvloop.run(main(json.loads(sys.argv[1])))
