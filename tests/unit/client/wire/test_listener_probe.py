from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from ruslo.client.wire.listener_probe import WrongSecurityProtocol, check_reachable
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from tests.support.brokers.scripted_broker import ScriptedBroker
from tests.support.network.tls import tls_listener


async def test_one_responding_server_is_enough() -> None:
    async with ScriptedBroker() as broker:
        await asyncio.to_thread(check_reachable, f"127.0.0.1:1,127.0.0.1:{broker.port}")


def test_a_tls_handshake_is_enough_for_an_encrypted_listener(tmp_path: Path) -> None:
    with tls_listener(tmp_path) as port:
        check_reachable(f"127.0.0.1:1,127.0.0.1:{port}", encrypted=True)


def test_a_plaintext_client_at_a_tls_listener(tmp_path: Path) -> None:
    with (
        tls_listener(tmp_path) as port,
        pytest.raises(WrongSecurityProtocol, match=r"is a listener with TLS.*security\.protocol to SSL"),
    ):
        check_reachable(f"127.0.0.1:{port}")


def test_a_tls_client_at_a_plaintext_listener() -> None:
    async def run() -> None:
        async with ScriptedBroker() as broker:
            await asyncio.to_thread(check_reachable, f"127.0.0.1:{broker.port}", encrypted=True, timeout_s=1)

    with pytest.raises(WrongSecurityProtocol, match=r"is a listener without TLS.*to PLAINTEXT"):
        asyncio.run(run())


def test_a_server_that_does_not_respond() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionLost, match=f"{address} accepts connections, but did not respond"):
            check_reachable(f"127.0.0.1:1,{address}", timeout_s=0.1)


@pytest.mark.parametrize("response", [b"SSH-2.0-OpenSSH", b"HTTP/1.1 400 Bad Request", b"\0\0\0\x08\0\0\0\0"])
def test_a_server_that_is_not_a_broker(response: bytes) -> None:
    async def run() -> None:
        async with ScriptedBroker(lambda received: response) as server:
            await asyncio.to_thread(check_reachable, f"127.0.0.1:{server.port}", timeout_s=1)

    with pytest.raises(ConnectionLost, match="does not respond like a Kafka broker"):
        asyncio.run(run())


def test_unreachable_names_every_address_and_reason() -> None:
    with pytest.raises(BrokerUnreachable) as caught:
        check_reachable("127.0.0.1:1,no-such-host.invalid:2,a..b:3")
    assert "127.0.0.1:1 (connection refused)" in str(caught.value)
    assert "no-such-host.invalid:2 (unknown host name)" in str(caught.value)
    assert "a..b:3 (unknown host name)" in str(caught.value)
    assert caught.value.addresses == (("127.0.0.1", 1), ("no-such-host.invalid", 2), ("a..b", 3))
