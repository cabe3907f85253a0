"""A full disk fails writes; the log directory stays online and recovers by itself."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import METADATA_TOPIC
from ruslo.storage import log_manager
from ruslo.storage.disk import DiskError
from ruslo.storage.local_disk import LocalDisk, LocalFile
from tests.support.brokers.live_node import LiveNode, batch_of, live_node
from tests.support.clients.raw_client import RawClient, connected


class FullDisk(LocalDisk):
    """Fails to create files while ``full``, except those of the metadata log."""

    full = False

    def _require_space(self, path: str) -> None:
        if FullDisk.full and METADATA_TOPIC not in path:
            raise DiskError(self.directory, path, "write", OSError(errno.ENOSPC, "No space left on device"))

    def write_file(self, path: str, data: ReadBuffer) -> None:
        self._require_space(path)
        super().write_file(path, data)

    def replace_file(self, path: str, data: ReadBuffer) -> None:
        self._require_space(path)
        super().replace_file(path, data)

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        if create:
            self._require_space(path)
        return super().open(path, create=create)


@pytest.fixture(autouse=True)
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_manager, "LocalDisk", FullDisk)
    monkeypatch.setattr(FullDisk, "full", False)


def assert_online(node: LiveNode) -> None:
    assert all(directory.online for directory in node.node.logs.directories)
    assert node.node.failure is None


async def test_retention_that_cannot_roll_leaves_the_directory_online(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", retention_ms="1000")
        assert (await node.produce(client, batch_of(b"a"))).error_code == 0
        FullDisk.full = True
        for log in list(node.node.logs.logs.values()):
            node.node.logs.check_retention_of(log)
        assert_online(node)
        FullDisk.full = False


async def test_a_sync_is_retried_until_its_checkpoint_can_be_written(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", flush_messages="1")
        FullDisk.full = True
        node.partition("t", 0).become_leader(5)
        waiting = asyncio.create_task(node.produce(client, batch_of(b"a")))
        await asyncio.sleep(0.2)
        assert_online(node)
        assert not waiting.done()
        FullDisk.full = False
        assert (await waiting).error_code == 0


async def test_the_log_of_a_partition_is_created_once_there_is_space(tmp_path: Path) -> None:
    async def produced(node: LiveNode, client: RawClient) -> ErrorCode:
        return ErrorCode((await node.produce(client, batch_of(b"a"))).error_code)

    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        FullDisk.full = True
        await node.create("t")
        assert_online(node)
        assert await produced(node, client) is ErrorCode.KAFKA_STORAGE_ERROR
        assert not (tmp_path / "t-0").exists()
        FullDisk.full = False
        async with asyncio.timeout(60):
            while (code := await produced(node, client)) is not ErrorCode.NONE:
                assert code is ErrorCode.KAFKA_STORAGE_ERROR
                await asyncio.sleep(0.1)
