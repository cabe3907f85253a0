"""The raft driver on a real directory: the calls of its listeners, and the state after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from tests.support.brokers.metadata_log import MetadataNode, remove_topic, running, topic, until


def metadata_dir(directory: Path) -> Path:
    return directory / "__cluster_metadata-0"


async def test_first_start_and_restarts(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        assert node.listener.calls == ["leader 1@1"]
        assert (node.driver.leader_id, node.driver.epoch) == (1, 1)
        assert (node.driver.high_watermark, node.driver.end_offset) == (1, 1)
        assert await node.create("a", "b") == 2
        assert await node.create("c") == 3
        node.append(remove_topic("a"))
    assert node.listener.calls == [
        "leader 1@1",
        "commit 1@1: a b",
        "commit 3@1: c",
        "commit 4@1: -a",
        "leader -1@1",
    ]
    assert node.driver.leader_id == -1
    async with running(MetadataNode(tmp_path)) as again:
        assert again.listener.calls == [
            "commit 1@1: a b",
            "commit 3@1: c",
            "commit 4@1: -a",
            "leader 1@2",
        ]
        assert again.listener.names == ["b", "c"]
        assert again.driver.end_offset == again.driver.high_watermark == 6
    async with running(MetadataNode(tmp_path)) as third:
        assert third.driver.epoch == 3
        assert third.listener.names == ["b", "c"]


def test_files_of_a_static_quorum(tmp_path: Path) -> None:
    async def create_topic() -> None:
        async with running(MetadataNode(tmp_path)) as node:
            await node.create("a")

    asyncio.run(create_topic())
    directory = metadata_dir(tmp_path)
    assert (directory / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
    assert (directory / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert not list(directory.glob("*.tmp"))


async def test_appends_of_one_iteration_share_a_sync(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        offsets = [node.append(topic(f"t{i}")) for i in range(50)]
        assert offsets == list(range(1, 51))
        assert node.driver.high_watermark == 1
        assert node.driver.append(node.driver.epoch, []) == 50
        await node.committed(50)
        assert len(node.listener.names) == 50


async def test_only_the_leader_of_the_epoch_appends(tmp_path: Path) -> None:
    node = MetadataNode(tmp_path)
    async with running(node):
        for epoch in (0, 2):
            with pytest.raises(KafkaError) as rejected:
                node.driver.append(epoch, [topic("a")])
            assert rejected.value.code is ErrorCode.NOT_CONTROLLER
        assert node.driver.end_offset == 1
    with pytest.raises(KafkaError):
        node.driver.append(1, [topic("a")])


async def test_a_listener_may_append_from_a_callback(tmp_path: Path) -> None:
    node = MetadataNode(tmp_path)

    class Controller:
        def handle_snapshot(self, offset: int, epoch: int, records: object) -> Iterator[None]:
            raise AssertionError("unexpected snapshot")

        def handle_commit(self, base_offset: int, epoch: int, records: object) -> None:
            if base_offset == 1:
                node.append(topic("after"))

        def handle_leader_change(self, leader_id: int, epoch: int) -> None:
            if leader_id == 1:
                node.append(topic("first"))

    node.extra_listeners.append(Controller())
    async with running(node):
        await node.committed(2)
        assert node.listener.names == ["first", "after"]


async def test_transactions_are_delivered_whole(tmp_path: Path) -> None:
    begin, end, abort = (
        (BeginTransactionRecord(), 0),
        (EndTransactionRecord(), 0),
        (AbortTransactionRecord(), 0),
    )
    async with running(MetadataNode(tmp_path)) as node:
        await node.committed(node.append(topic("before"), begin, topic("a")))
        await node.committed(node.append(topic("b")))
        assert node.listener.names == ["before"]
        await node.committed(node.append(topic("c"), end, topic("behind")))
        assert node.listener.calls[1:] == ["commit 1@1: before", "commit 3@1: a b c", "commit 7@1: behind"]
        await node.committed(node.append(begin, topic("never"), abort, topic("d")))
        assert node.listener.names == ["before", "a", "b", "c", "behind", "d"]
        # The next leader aborts the open transaction.
        await node.committed(node.append(begin, topic("lost")))
    async with running(MetadataNode(tmp_path)) as again:
        assert again.listener.names == ["before", "a", "b", "c", "behind", "d"]
        await again.create("e")
    async with running(MetadataNode(tmp_path)) as third:
        assert third.listener.names == ["before", "a", "b", "c", "behind", "d", "e"]


async def test_a_batch_that_is_too_big_is_rejected_whole(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        with pytest.raises(KafkaError) as rejected:
            node.append(*(topic("x" * 30_000 + str(i)) for i in range(300)))
        assert rejected.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
        assert node.driver.end_offset == 1
        await node.create("small")


async def test_a_listener_that_fails_stops_the_driver(tmp_path: Path) -> None:
    node = MetadataNode(tmp_path)
    async with running(node):
        await node.create("a")
        node.append(remove_topic("unknown"))
        await until(lambda: bool(node.failures))
        assert isinstance(node.failures[0], KeyError)
        assert node.listener.calls[-1] == "leader -1@1"
        with pytest.raises(KafkaError):
            node.append(topic("b"))
    assert len(node.failures) == 1
