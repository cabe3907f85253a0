"""``ruslo share replay`` against a node: records are sent once, from the source or from their copies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ruslo.cli.share.replaying import Replay, Replayed
from ruslo.client.admin.admin import Admin
from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.records.record import Record
from tests.support.brokers.live_node import records_in, until
from tests.support.share.live_share_node import ShareNode, share_node
from tests.support.share.share_client import REJECT


@asynccontextmanager
async def rejected(directory: Path, *values: bytes, **config: str) -> AsyncIterator[tuple[ShareNode, Admin]]:
    """A node whose group g has rejected these records."""
    async with (
        share_node(directory) as node,
        node.member() as member,
        Admin(node.node.bootstrap) as admin,
    ):
        await node.node.create("dlq.t", 1, errors_deadletterqueue_group_enable="true")
        await node.node.alter_group("g", errors_deadletterqueue_topic_name="dlq.t", **config)
        await node.produce(*values)
        await member.fetch([0])
        await member.acknowledge({0: [(0, len(values) - 1, [REJECT])]})
        await until(lambda: node.shares.counters.dead_letters["g"] == len(values))
        yield node, admin


async def replay(admin: Admin, to: str | None = None, *, dry_run: bool = False) -> Replayed:
    return await Replay(admin, "g", to, dry_run=dry_run).run()


async def records(node: ShareNode, topic: str) -> list[Record]:
    return records_in((await node.node.fetch(node.writer, topic=topic)).records)


async def test_a_repeated_replay_sends_nothing_twice(tmp_path: Path) -> None:
    async with rejected(tmp_path, b"a", b"b") as (node, admin):
        assert (await replay(admin, dry_run=True)).records == {"t": 2}
        assert (await replay(admin)).records == {"t": 2}
        assert (await replay(admin)).records == {}
        values = [each.value for each in await records(node, "t")]
        assert values[:4] == [b"a", b"b", b"a", b"b"]
        assert values.count(b"a") == 2


async def test_records_may_go_to_another_topic(tmp_path: Path) -> None:
    async with rejected(tmp_path, b"a") as (node, admin):
        await node.node.create("repaired")
        assert (await replay(admin, "repaired")).records == {"repaired": 1}
        assert (await records(node, "repaired"))[0].value == b"a"


@pytest.mark.parametrize("copies", ["true", "false"])
async def test_a_deleted_record_is_replayed_from_its_copy(tmp_path: Path, copies: str) -> None:
    config = {"errors_deadletterqueue_copy_record_enable": copies}
    async with rejected(tmp_path, b"a", **config) as (node, admin):
        await node.node.create("repaired")
        await admin.topics.delete_records({TopicPartition("t", 0): 1})
        result = await replay(admin, "repaired")
        if copies == "true":
            assert (result.records, result.lost) == ({"repaired": 1}, [])
            assert (await records(node, "repaired"))[0].value == b"a"
        else:
            assert (result.records, result.lost) == ({}, [(TopicPartition("t", 0), 0)])


async def test_a_group_without_dead_letter_topic_is_refused(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, Admin(node.node.bootstrap) as admin:
        with pytest.raises(ConfigError, match="has no dead-letter topic"):
            await replay(admin)
