"""The metrics listener over TLS: scrapes and probes by a real TLS client, certificates that change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from ruslo.broker.metrics.listener import Health, MetricsListener
from ruslo.model.errors import ConfigError
from ruslo.net.server import TlsListener
from ruslo.net.tls.contexts import client_context
from ruslo.net.tls.development_ca import Issued
from ruslo.net.tls.settings import ClientAuth, TlsSettings
from tests.support.brokers.live_node import live_node
from tests.support.brokers.metrics import http_request, raw_http_request
from tests.support.network.certificates import (
    HOSTS,
    authority,
    broker_certificate,
    broker_tls,
    client_tls,
    trust_store,
)

LARGE = b"some_metric 1\n" * 100_000


async def render() -> bytes:
    return LARGE


@contextlib.asynccontextmanager
async def serving(tls: TlsListener) -> AsyncIterator[str]:
    listener = MetricsListener(render, lambda: Health(True, "ready"))
    port = await listener.listen("127.0.0.1", 0, tls)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await listener.close()


def trusting(name: str | None = None) -> ssl.SSLContext:
    return client_context(client_tls(name))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_scrapes_and_probes(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    def get(address: str, path: str) -> tuple[int, str]:
        # A TLS client on uvloop drops the end of a large response when the server closes the connection.
        return asyncio.run(http_request(address, path, context=trusting()))

    async def request() -> None:
        async with serving(broker_tls()) as address:
            assert await asyncio.to_thread(get, address, "/metrics") == (200, LARGE.decode())
            assert (await http_request(address, "/health/live", context=trusting()))[0] == 200
            assert (await http_request(address, "/none", context=trusting()))[0] == 404
            endless = b"GET /metrics HTTP/1.1\r\n" + b"X-Filler: 1\r\n" * 5000
            assert (await raw_http_request(address, endless, trusting()))[0] == 0

    run(request())


async def test_a_client_verifies_the_node() -> None:
    async with serving(broker_tls()) as address:
        with pytest.raises(ssl.SSLCertVerificationError):
            await http_request(address, "/metrics", context=ssl.create_default_context())


async def test_required_client_certificates(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(broker_tls(ClientAuth.REQUIRED)) as address:
        assert (await http_request(address, "/health/ready", context=trusting("prometheus")))[0] == 200
        # With TLS 1.3 a client learns after its handshake that it is refused.
        with contextlib.suppress(ssl.SSLError):
            assert (await http_request(address, "/health/ready", context=trusting()))[0] == 0
        assert "the client sent no certificate, but ssl.client.auth is required" in caplog.text


async def test_plain_http_is_closed_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(broker_tls()) as address:
        for _ in range(3):
            assert await http_request(address, "/health/live") == (0, "")
        assert (await http_request(address, "/health/live", context=trusting()))[0] == 200
    assert caplog.text.count("use the scheme https in the scrape config and in probes") == 1


def write_store(path: Path, issued: Issued) -> None:
    path.write_text(issued.key.reveal() + issued.chain)


def leaf(issued: Issued) -> bytes:
    return load_pem_x509_certificate(issued.chain.encode()).public_bytes(Encoding.DER)


async def test_a_node_serves_https_and_loads_new_certificates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, store, trusted = broker_certificate(), tmp_path / "node.pem", tmp_path / "ca.pem"
    write_store(store, first)
    trusted.write_text(authority().certificate)
    properties = {
        "ruslo.metrics.listener": "127.0.0.1:0",
        "ruslo.metrics.security.protocol": "SSL",
        "listener.name.metrics.ssl.keystore.type": "PEM",
        "listener.name.metrics.ssl.keystore.location": str(store),
        "listener.name.metrics.ssl.truststore.location": str(trusted),
        "listener.name.metrics.ssl.client.auth": "required",
    }
    caplog.set_level(logging.INFO)
    async with live_node(tmp_path / "data", properties) as live:
        address = live.node.metrics.address
        assert address is not None
        assert f"metrics at https://{address}/metrics" in caplog.text
        assert "without effect: listener" not in caplog.text
        status, text = await http_request(address, "/metrics", context=trusting("prometheus"))
        assert (status, "ruslo_ready 1" in text) == (200, True)
        assert await served_certificate(address) == leaf(first)
        renewed = authority().issue("broker", HOSTS)
        write_store(store, renewed)
        live.node._security.replace_changed_files()
        assert await served_certificate(address) == leaf(renewed)
        stranger = authority().issue("stranger", HOSTS)
        write_store(store, stranger)
        live.node._security.replace_changed_files()
        assert await served_certificate(address) == leaf(renewed)
    assert "listener METRICS keeps its certificates: The new certificate is for CN=stranger" in caplog.text
    assert "PRIVATE KEY" not in caplog.text


async def served_certificate(address: str) -> bytes | None:
    host, _, port = address.partition(":")
    context = client_context(TlsSettings(client_tls("prometheus").key_store, trust_store()))
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        certificate: bytes | None = writer.get_extra_info("ssl_object").getpeercert(True)
        return certificate
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, "needs a certificate. Set ssl.keystore.location"),
        ({"listener.name.metrics.ssl.keystore.location": "/missing.pem"}, "/missing.pem"),
        ({"ruslo.metrics.security.protocol": "SASL_SSL"}, "ruslo.metrics.security.protocol"),
        (
            {
                "listeners": "METRICS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "METRICS:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "METRICS",
                "advertised.listeners": "METRICS://127.0.0.1:0",
            },
            "has the name METRICS, too",
        ),
    ],
)
async def test_wrong_settings_stop_the_start(
    tmp_path: Path, properties: dict[str, str], problem: str
) -> None:
    common = {"ruslo.metrics.listener": "127.0.0.1:0", "ruslo.metrics.security.protocol": "SSL"}
    with pytest.raises(ConfigError, match=problem):
        async with live_node(tmp_path, common | properties):
            pass
