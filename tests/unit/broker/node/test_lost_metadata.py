"""A node whose metadata log was removed, emptied, zeroed or restored must not start an empty cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ruslo.broker.quorum.metadata_evidence import MetadataEvidence, MetadataLost
from ruslo.model.errors import RusloError
from tests.support.brokers.live_node import batch_of, live_node
from tests.support.clients.raw_client import connected


def _segments(metadata: Path) -> list[Path]:
    return sorted(metadata.glob("*.log"))


def remove_all(metadata: Path) -> None:
    shutil.rmtree(metadata)


def remove_segments(metadata: Path) -> None:
    for path in _segments(metadata):
        path.unlink()


def empty_segments(metadata: Path) -> None:
    for path in _segments(metadata):
        path.write_bytes(b"")


def zero_segments(metadata: Path) -> None:
    for path in _segments(metadata):
        path.write_bytes(bytes(path.stat().st_size))


def lose_tail(metadata: Path) -> None:
    path = _segments(metadata)[-1]
    path.write_bytes(path.read_bytes()[:200])


@pytest.mark.parametrize("damage", [remove_all, remove_segments, empty_segments, zero_segments, lose_tail])
async def test_lost_metadata_log_prevents_the_start(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        assert (await node.produce(client, batch_of(b"v"))).error_code == 0
        data = Path(node.partition("t", 0).log.directory)
    damage(data / "__cluster_metadata-0")
    for _ in range(2):
        with pytest.raises(RusloError) as raised:
            async with live_node(tmp_path):
                pass
        if damage is not remove_all:
            assert isinstance(raised.value, MetadataLost)
            assert str(data) in str(raised.value)
        assert (data / "t-0").is_dir(), "the partition directory is still there"
        assert (data / ".kafka_cleanshutdown").exists() or damage is remove_all


async def test_first_and_second_start(tmp_path: Path) -> None:
    for _ in range(2):
        async with live_node(tmp_path):
            pass


def test_log_is_fetched_again_from_other_voters() -> None:
    evidence = MetadataEvidence("/data/t-0", was_clean=True, broker_epoch=40)
    evidence.check_log("/data/__cluster_metadata-0", 0, {2, 3})
    for other_voters in (set[int](), None):
        with pytest.raises(MetadataLost, match="is empty, but there are partitions: /data/t-0"):
            evidence.check_log("/data/__cluster_metadata-0", 0, other_voters)
    with pytest.raises(MetadataLost, match="ends at offset 40, but this node has seen offset 40"):
        evidence.check_log("/data/__cluster_metadata-0", 40, set())
    evidence.check_log("/data/__cluster_metadata-0", 41, set())


def test_broker_does_not_join_a_cluster_that_lost_its_registration() -> None:
    evidence = MetadataEvidence("/data/t-0", was_clean=True, broker_epoch=40)
    evidence.check_epoch(41)
    with pytest.raises(MetadataLost, match="the controllers have lost metadata"):
        evidence.check_epoch(12)
    MetadataEvidence("/data/t-0", was_clean=False, broker_epoch=-1).check_epoch(12)
