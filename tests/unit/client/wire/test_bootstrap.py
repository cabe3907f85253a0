from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from ruslo.client.wire.bootstrap import Address, WrongSecurityProtocol, check_reachable, parse_bootstrap
from ruslo.model.errors import ConfigError
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from tests.support.brokers.scripted_broker import ScriptedBroker
from tests.support.network.tls import tls_listener


def test_addresses_in_order_without_repetition() -> None:
    assert parse_bootstrap("a:1, b:2,,a:1,[::1]:3") == [Address("a", 1), Address("b", 2), Address("::1", 3)]
    assert str(Address("::1", 3)) == "[::1]:3"


@pytest.mark.parametrize(
    "text", ["", " , ", "host", "host:", ":9092", "host:x", "host:0", "host:65536", "::1:9092", "http://a:1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        parse_bootstrap(text)


def test_a_scheme_is_not_taken_for_an_ipv6_address() -> None:
    with pytest.raises(ConfigError, match="write HOST:PORT"):
        parse_bootstrap("PLAINTEXT://broker:9092")


async def test_one_server_that_answers_is_enough() -> None:
    async with ScriptedBroker() as broker:
        await asyncio.to_thread(check_reachable, f"127.0.0.1:1,127.0.0.1:{broker.port}")


def test_of_an_encrypted_listener_a_handshake_is_enough(tmp_path: Path) -> None:
    with tls_listener(tmp_path) as port:
        check_reachable(f"127.0.0.1:1,127.0.0.1:{port}", encrypted=True)


def test_a_client_without_tls_is_told_of_a_listener_with_tls(tmp_path: Path) -> None:
    with (
        tls_listener(tmp_path) as port,
        pytest.raises(WrongSecurityProtocol, match=r"is a listener with TLS.*security\.protocol to SSL"),
    ):
        check_reachable(f"127.0.0.1:{port}")


def test_a_client_with_tls_is_told_of_a_listener_without() -> None:
    async def run() -> None:
        async with ScriptedBroker() as broker:
            await asyncio.to_thread(check_reachable, f"127.0.0.1:{broker.port}", encrypted=True)

    with pytest.raises(WrongSecurityProtocol, match=r"is a listener without TLS.*to PLAINTEXT"):
        asyncio.run(run())


def test_a_server_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionLost, match=f"{address} accepts connections, but did not answer"):
            check_reachable(f"127.0.0.1:1,{address}", timeout_s=0.1)


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH", b"HTTP/1.1 400 Bad Request", b"\0\0\0\x08\0\0\0\0"])
def test_a_server_that_is_no_broker(answer: bytes) -> None:
    async def run() -> None:
        async with ScriptedBroker(lambda asked: answer) as server:
            await asyncio.to_thread(check_reachable, f"127.0.0.1:{server.port}")

    with pytest.raises(ConnectionLost, match="does not answer as Kafka brokers do"):
        asyncio.run(run())


def test_unreachable_names_every_address_and_reason() -> None:
    with pytest.raises(BrokerUnreachable) as caught:
        check_reachable("127.0.0.1:1,no-such-host.invalid:2,a..b:3")
    assert "127.0.0.1:1 (connection refused)" in str(caught.value)
    assert "no-such-host.invalid:2 (unknown host name)" in str(caught.value)
    assert "a..b:3 (unknown host name)" in str(caught.value)
    assert caught.value.addresses == (("127.0.0.1", 1), ("no-such-host.invalid", 2), ("a..b", 3))
