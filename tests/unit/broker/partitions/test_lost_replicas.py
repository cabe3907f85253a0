"""Sole replicas whose files were damaged while the broker was down."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Sample, labels_text
from ruslo.broker.metrics.partition_source import directory_families
from ruslo.client.admin.admin import Admin
from ruslo.client.views.cluster_health import cluster_health
from ruslo.model.ids import random_uuid
from ruslo.storage.lost_data import LossKind
from ruslo.storage.partition_files import format_partition_metadata, parse_partition_metadata
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, records_in
from tests.support.clients.raw_client import connected

FIRST_SEGMENT = f"{0:020d}.log"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def values(node: LiveNode, offset: int = 0) -> list[bytes | None]:
    async with connected(node.bootstrap) as client:
        return [record.value for record in records_in((await node.fetch(client, offset=offset)).records)]


@pytest.mark.parametrize(
    "damaged", [None, b"", b"version: 0\ntopic_id: ", b"version: 0\ntopic_id: " + b"?" * 22]
)
async def test_topic_id_is_recovered_from_the_metadata(tmp_path: Path, damaged: bytes | None) -> None:
    path = tmp_path / "t-0" / "partition.metadata"
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        topic_id = await node.create("t")
        await node.produce(client, batch_of(b"a", b"b"))
    if damaged is None:
        path.unlink()
    else:
        path.write_bytes(damaged)
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        assert await values(node) == [b"a", b"b"]
        assert parse_partition_metadata(path.read_bytes(), str(path)) == topic_id
        assert (await node.produce(client, batch_of(b"c"))).base_offset == 2
        assert len(node.node.logs.lost_data) == 0


def lost_data_metric(node: LiveNode) -> list[Sample]:
    (family,) = [each for each in directory_families(node.node.logs) if each.metric is catalog.LOST_DATA]
    return list(family.samples)


def remove_directory(directory: Path) -> None:
    shutil.rmtree(directory)


def remove_segment(directory: Path) -> None:
    (directory / FIRST_SEGMENT).unlink()


def empty_segment(directory: Path) -> None:
    (directory / FIRST_SEGMENT).write_bytes(b"")


def remove_everything_but_the_segment_name(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()
    empty_segment(directory)


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (remove_directory, LossKind.REPLICA),
        (remove_segment, LossKind.TAIL),
        (empty_segment, LossKind.TAIL),
        (remove_everything_but_the_segment_name, LossKind.REPLICA),
    ],
)
async def test_offsets_of_lost_records_are_not_assigned_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], kind: LossKind
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        await node.produce(client, batch_of(b"a", b"b", b"c"))
    damage(tmp_path / "t-0")
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        (lost,) = node.node.logs.lost_data
        assert (lost.kind, lost.first_offset, lost.end_offset) == (kind, 0, 3)
        assert any(str(lost) in line for line in errors(caplog))
        assert (await node.produce(client, batch_of(b"d"))).base_offset == 3
        assert await values(node, 3) == [b"d"]
        async with Admin(node.bootstrap) as admin:
            health = await cluster_health(admin)
        assert health.lost_data == (f"broker {node.node.config.node_id}: {lost}",)
        assert f"records are lost on broker {node.node.config.node_id}: t-0" in health.sentence
        labels = labels_text({"topic": "t", "partition": 0, "kind": kind.value})
        assert lost_data_metric(node) == [Sample(labels, 1)]
        await node.delete("t")
        assert len(node.node.logs.lost_data) == 0


async def test_lost_tail_leaves_a_gap_that_restarts_keep(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", segment_bytes="1048576")
        await node.produce(client, batch_of(b"a", b"b"))
        node.partition("t", 0).log.roll(2, node.node.logs.clock.now_ms())
        await node.produce(client, batch_of(b"c", b"d", b"e"))
    (tmp_path / "t-0" / f"{2:020d}.log").unlink()
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        (lost,) = node.node.logs.lost_data
        assert (lost.kind, lost.first_offset, lost.end_offset) == (LossKind.TAIL, 2, 5)
        assert (await node.produce(client, batch_of(b"f"))).base_offset == 5
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        assert len(node.node.logs.lost_data) == 0
        assert await values(node) == [b"a", b"b", b"f"]
        assert (await node.produce(client, batch_of(b"g"))).base_offset == 6


async def test_the_log_of_another_topic_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        await node.produce(client, batch_of(b"a"))
    path = tmp_path / "t-0" / "partition.metadata"
    path.write_bytes(format_partition_metadata(random_uuid()))
    async with live_node(tmp_path) as node:
        assert node.partition("t", 0).log.end_offset == 0
        (lost,) = node.node.logs.lost_data
        assert lost.kind is LossKind.REPLICA
        assert "another topic" in lost.detail
