from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.cli.running import with_admin
from ruslo.net.errors import ConnectionLost
from tests.support.brokers.scripted_broker import ScriptedBroker
from tests.support.network.tls import tls_listener


def test_a_server_that_is_not_a_broker_is_contacted_once() -> None:
    async def run() -> int:
        async with ScriptedBroker(lambda received: b"SSH-2.0-OpenSSH") as server:
            address = f"127.0.0.1:{server.port}"
            with pytest.raises(ConnectionLost, match="check that this is a Kafka broker"):
                await asyncio.to_thread(with_admin, address, lambda admin: admin.groups.list())
            return len(server.requests)

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize("command", ["topic list", "consume orders", "cluster health"])
def test_an_invalid_host_name(command: str) -> None:
    result = CliRunner().invoke(cli, [*command.split(), "-b", "a..b:9092"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a..b:9092 (unknown host name)" in result.stderr


def test_a_tls_listener_is_reported(tmp_path: Path) -> None:
    with tls_listener(tmp_path) as port:
        result = CliRunner().invoke(cli, ["topic", "list", "-b", f"127.0.0.1:{port}"])
    assert result.exit_code == 1
    assert "is a listener with TLS, but the client does not use TLS: set security.protocol" in result.stderr
