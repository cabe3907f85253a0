"""The HTTP listener: its responses and its limits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from ruslo.broker.metrics import listener as listener_module
from ruslo.broker.metrics.listener import MAX_CONNECTIONS, Health, MetricsListener
from ruslo.model.errors import ConfigError
from tests.support.brokers.metrics import http_request, raw_http_request


class FixedText:
    health = Health(False, "starting")
    renders = 0

    async def render(self) -> bytes:
        self.renders += 1
        return b"some_metric 1\n"


@contextlib.asynccontextmanager
async def listening(result: FixedText) -> AsyncIterator[str]:
    listener = MetricsListener(result.render, lambda: result.health)
    port = await listener.listen("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await listener.close()


async def test_metrics_and_probes() -> None:
    result = FixedText()
    async with listening(result) as address:
        assert await http_request(address, "/metrics") == (200, "some_metric 1\n")
        assert await http_request(address, "/metrics?name[]=x") == (200, "some_metric 1\n")
        assert await http_request(address, "/health/live") == (200, '{"state": "live"}\n')
        assert await http_request(address, "/health/ready") == (503, '{"state": "starting"}\n')
        result.health = Health(True, "ready")
        assert await http_request(address, "/health/ready") == (200, '{"state": "ready"}\n')


async def test_other_methods_and_paths_are_rejected() -> None:
    result = FixedText()
    async with listening(result) as address:
        assert (await http_request(address, "/"))[0] == 404
        status, head, _ = await raw_http_request(address, b"POST /metrics HTTP/1.1\r\n\r\n")
        assert (status, "Allow: GET, HEAD" in head) == (405, True)
        status, head, body = await raw_http_request(address, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert (status, body) == (200, "")
        assert "Content-Length: 14" in head
        assert (await raw_http_request(address, b"\x00\x00\x00\x0c\r\n\r\n"))[0] == 405
        endless = b"GET /metrics HTTP/1.1\r\n" + b"X-Filler: 1\r\n" * 5000
        assert (await raw_http_request(address, endless))[0] == 0
        assert result.renders == 1


async def test_silent_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "HEAD_TIMEOUT_S", 0.05)
    async with listening(FixedText()) as address:
        assert (await raw_http_request(address, b"GET /metr"))[0] == 0


async def test_probe_gets_a_response_however_many_connections_are_open() -> None:
    async with listening(FixedText()) as address, contextlib.AsyncExitStack() as stack:
        host, port = address.split(":")
        silent = [await open_until_closed(stack, host, int(port)) for _ in range(2 * MAX_CONNECTIONS)]
        assert (await http_request(address, "/health/live"))[0] == 200
        # The oldest connections were closed, each for a newer one.
        for reader in silent[: MAX_CONNECTIONS + 1]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert not any(reader.at_eof() for reader in silent[MAX_CONNECTIONS + 1 :])


async def open_until_closed(
    stack: contextlib.AsyncExitStack, host: str, port: int, source: str = "127.0.0.1"
) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection(host, port, local_addr=(source, 0))
    stack.callback(writer.close)
    return reader


async def test_scrape_continues_however_many_connections_are_open() -> None:
    """The running scrape comes from another address and is older than all silent connections."""

    class SlowText(FixedText):
        def __init__(self) -> None:
            self.begun, self.go_on = asyncio.Event(), asyncio.Event()

        async def render(self) -> bytes:
            self.begun.set()
            await self.go_on.wait()
            return await super().render()

    result = SlowText()
    async with listening(result) as address, contextlib.AsyncExitStack() as stack:
        host, port = address.split(":")
        scrape = asyncio.create_task(http_request(address, "/metrics"))
        await result.begun.wait()
        for _ in range(2 * MAX_CONNECTIONS):
            await open_until_closed(stack, host, int(port), "127.0.3.1")
        assert (await http_request(address, "/health/live"))[0] == 200
        result.go_on.set()
        assert await scrape == (200, "some_metric 1\n")


async def test_address_in_use_is_explained() -> None:
    async with listening(FixedText()) as address:
        other = MetricsListener(FixedText().render, lambda: FixedText.health)
        with pytest.raises(ConfigError, match="another process listens there"):
            await other.listen("127.0.0.1", int(address.split(":")[1]))
        await other.close()
