"""Log directories that are missing, not writable, or fail later: the others stay in service."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ruslo.broker.node.node import Node
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import ErrorCode, StorageError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.testing.cluster_layout import single_node_properties
from tests.support.brokers.live_node import LiveNode, batch_of, live_node
from tests.support.clients.raw_client import RawClient, connected


async def fill(node: LiveNode, client: RawClient) -> dict[int, str]:
    """Write to four partitions over two directories; return the directory of each partition."""
    await node.create("t", partitions=4)
    for index in range(4):
        assert (await node.produce(client, batch_of(b"v"), index=index)).error_code == 0
    return {index: node.partition("t", index).log.directory for index in range(4)}


@pytest.fixture
def directories(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    return {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}


@contextlib.asynccontextmanager
async def started(properties: dict[str, str]) -> AsyncIterator[LiveNode]:
    """Start a node on the existing directories, without creating or formatting any."""
    overrides = single_node_properties(Path("unused"), overrides=properties)
    node = Node(BrokerConfig.from_properties(overrides))
    await node.start()
    try:
        yield LiveNode(node)
    finally:
        await node.stop()


async def test_directory_missing_at_startup(tmp_path: Path, directories: dict[str, str]) -> None:
    async with live_node(tmp_path, directories) as node, connected(node.bootstrap) as client:
        directory_of = await fill(node, client)
    assert set(directory_of.values()) == {str(tmp_path / "one"), str(tmp_path / "two")}
    shutil.move(tmp_path / "two", tmp_path / "unplugged")
    async with started(directories) as node, connected(node.bootstrap) as client:
        for index, directory in directory_of.items():
            response = await node.produce(client, batch_of(b"w"), index=index)
            expected = ErrorCode.NONE if directory == str(tmp_path / "one") else ErrorCode.KAFKA_STORAGE_ERROR
            assert response.error_code == expected
        # Lost replicas are not recreated elsewhere; new topics use the remaining disk.
        await node.create("new", partitions=2)
        assert node.partition("new", 1).log.directory == str(tmp_path / "one")
        names = {path.name for path in (tmp_path / "one").glob("t-*")}
        assert names == {
            f"t-{index}" for index, directory in directory_of.items() if directory.endswith("one")
        }
    shutil.move(tmp_path / "unplugged", tmp_path / "two")
    async with live_node(tmp_path, directories) as node, connected(node.bootstrap) as client:
        for index in directory_of:
            assert (await node.produce(client, batch_of(b"x"), index=index)).error_code == 0


async def test_node_stops_without_its_metadata_directory_or_any_log_directory(
    tmp_path: Path, directories: dict[str, str]
) -> None:
    async with live_node(tmp_path, directories):
        pass
    shutil.move(tmp_path / "one", tmp_path / "unplugged")
    with pytest.raises(StorageError, match="one"):
        async with started(directories):
            pass


async def test_lost_directories_are_reported_to_the_controller(
    tmp_path: Path, directories: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_node(tmp_path, directories) as node, connected(node.bootstrap) as client:
        await fill(node, client)
        lost = node.node.logs.directories[1]
        assert node.node.logs.offline_directory_ids() == []
        lost_id = lost.directory_id
        node.node.logs._take_offline(lost, StorageError("the disk is gone"))
        assert node.node.logs.offline_directory_ids() == [lost_id]
        heartbeats: list[list[bytes]] = []
        submit = node.node.gateway.submit

        def listen(request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]:
            if isinstance(request, BrokerHeartbeatRequest):
                heartbeats.append(request.offline_log_dirs)
            return submit(request, timeout_ms=timeout_ms)

        monkeypatch.setattr(node.node.gateway, "submit", listen)
        await node.node.broker.lifecycle._heartbeat()
        assert heartbeats
        assert all(each == [lost_id] for each in heartbeats)
