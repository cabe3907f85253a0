"""A recovering broker reports its progress and disconnects all other clients."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ruslo.broker.node.node import Node
from ruslo.cli.main import cli
from ruslo.client.admin.log_dirs import recovery_at
from ruslo.client.settings.bootstrap_servers import parse_bootstrap
from ruslo.config.broker import BrokerConfig
from ruslo.net.channel import Channel
from ruslo.net.errors import ConnectionLost
from ruslo.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.recovery_tag import Recovery
from ruslo.storage import log_dir
from ruslo.storage.clean_shutdown import CLEAN_SHUTDOWN
from ruslo.storage.log import Log
from ruslo.storage.log_loader import open_log
from ruslo.testing.cluster_layout import single_node_properties
from tests.support.brokers.live_cluster import live_cluster
from tests.support.brokers.live_node import batch_of, live_node, until
from tests.support.clients.raw_client import connected


class SlowRecovery:
    """Log recovery that waits for the test, except for the first log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = threading.Event()
        self._open = open_log
        self._first = True
        monkeypatch.setattr(log_dir, "open_log", self)

    def __call__(self, *args: Any) -> Log:
        if self._first:
            self._first = False
        else:
            assert self.free.wait(20), "the test never released this recovery"
        return self._open(*args)


async def crashed_node(directory: Path) -> None:
    """Three partitions, one of them with two segments, and no clean shutdown file."""
    async with live_node(directory) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=3)
        for index in range(3):
            await node.produce(client, batch_of(b"v"), index=index)
        log = node.partition("t", 0).log
        log.roll(log.end_offset, 0)
    (directory / CLEAN_SHUTDOWN).unlink()
    (directory / "recovery-point-offset-checkpoint").unlink()


async def info(bootstrap: str, *options: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, cli, ["cluster", "info", "-b", bootstrap, *options])


async def test_recovery_progress_is_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await crashed_node(tmp_path)
    slow = SlowRecovery(monkeypatch)
    node = Node(BrokerConfig.from_properties(single_node_properties(tmp_path)))
    starting = asyncio.create_task(node.start())
    await until(lambda: bool(node.endpoints) and node.logs.directories[0].recovery.logs_done == 1)
    address = parse_bootstrap(node.bootstrap)[0]
    (recovery,) = (await recovery_at(address)).values()
    assert (recovery.logs_done, recovery.logs_total, recovery.segments_total) == (1, 3, 4)
    assert recovery.segments_done in (1, 2)
    progress = node.logs.directories[0].recovery
    assert (progress.logs_left, progress.segments_left) == (2, 4 - recovery.segments_done)

    shown = await info(node.bootstrap)
    assert shown.exit_code == 1
    assert "recovering: 1 of 3 logs" in shown.output
    assert "All brokers are recovering" in shown.output
    as_json = await info(node.bootstrap, "-o", "json")
    assert json.loads(as_json.stdout)["starting"][0]["recovery"] == recovery._asdict()
    with pytest.raises(ConnectionLost):
        await Channel.open(*address)

    slow.free.set()
    await starting
    assert (progress.logs_left, progress.segments_left) == (0, 0)
    assert await recovery_at(address) == {}
    served = await info(node.bootstrap, "-o", "json")
    assert json.loads(served.stdout)["log_directories"][0]["recovery"] is None
    await node.stop()


async def test_other_broker_shows_the_recovering_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with live_cluster(tmp_path, ("broker,controller", "broker")) as cluster:
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=[2]) for index in range(2)
            ],
        )
        async with connected(cluster.nodes[1].bootstrap) as client:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
            (made,) = (await client.call(request, CreateTopicsResponse)).topics
        assert made.error_code == 0, made.error_message
        # The response is sent once broker 1 has applied the change; broker 2 applies it later.
        await until(lambda: len(cluster.nodes[2].broker.partitions.by_name.get("t", {})) == 2)
        await cluster.stop(2)
        (tmp_path / "2" / CLEAN_SHUTDOWN).unlink()
        slow = SlowRecovery(monkeypatch)
        starting = asyncio.create_task(cluster.start(2))
        await until(
            lambda: (
                2 in cluster.nodes
                and hasattr(cluster.nodes[2], "logs")
                and cluster.nodes[2].logs.directories[0].recovery.logs_done == 1
            )
        )
        shown = await info(cluster.nodes[1].bootstrap)
        assert shown.exit_code == 0, shown.output
        (line,) = [line for line in shown.output.splitlines() if "recovering" in line]
        assert line.split()[:2] == ["2", str(tmp_path / "2")]
        assert "recovering: 1 of 2 logs" in line
        slow.free.set()
        await starting


async def test_node_can_be_stopped_during_its_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crashed_node(tmp_path)
    slow = SlowRecovery(monkeypatch)
    node = Node(BrokerConfig.from_properties(single_node_properties(tmp_path)))
    starting = asyncio.create_task(node.start())
    await until(lambda: bool(node.endpoints) and node.logs.directories[0].recovery.logs_done == 1)
    address = parse_bootstrap(node.bootstrap)[0]
    slow.free.set()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


async def test_unreachable_broker_is_not_starting() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    assert await recovery_at(parse_bootstrap(f"127.0.0.1:{port}")[0]) == {}


def test_other_tags_do_not_mean_recovery() -> None:
    recovery = Recovery(1, 2, 3, 4)
    assert Recovery.from_tags(recovery.as_tags()) == recovery
    assert Recovery.from_tags(None) is None
    assert Recovery.from_tags({1: b"x"}) is None
    assert Recovery.from_tags(dict.fromkeys(recovery.as_tags(), b"short")) is None
