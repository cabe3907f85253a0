"""Node identity: a node starts only on its own log directories, and errors say how to format them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ruslo.broker.node.identity import check_formatted, check_identity, read_bootstrap_records
from ruslo.config.broker import BrokerConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import StorageError
from ruslo.model.ids import random_uuid
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log_manager import LogManager
from ruslo.storage.meta_properties import MetaProperties, write_meta_properties
from tests.support.brokers.metadata_log import broker_config


@contextmanager
def opened(*paths: Path) -> Iterator[LogManager]:
    logs = LogManager.open([str(path) for path in paths], SystemClock())
    try:
        yield logs
    finally:
        for directory in logs.directories:
            directory.abandon()


def two_directories(tmp_path: Path) -> tuple[Path, Path, BrokerConfig]:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.mkdir()
    return a, b, broker_config(tmp_path, {"log.dirs": f"{a},{b}"})


def write_meta(
    path: Path, cluster_id: str = "c", node_id: int = 1, directory_id: bytes | None = None
) -> None:
    meta = MetaProperties(cluster_id, node_id, directory_id or random_uuid())
    write_meta_properties(LocalDisk(str(path)), meta)


def test_valid_directories(tmp_path: Path) -> None:
    a, b, config = two_directories(tmp_path)
    write_meta(a)
    write_meta(b)
    check_formatted(config)
    with opened(a, b) as logs:
        identity = check_identity(config, logs.directories)
    assert (identity.cluster_id, identity.node_id) == ("c", 1)
    assert set(identity.directory_ids) == {str(a), str(b)}


def test_not_formatted(tmp_path: Path) -> None:
    a, b, config = two_directories(tmp_path)
    with pytest.raises(
        StorageError, match=r"are not formatted.*\n    ruslo storage format -c PROPERTY_FILE\n"
    ):
        check_formatted(config)
    dynamic = broker_config(
        tmp_path,
        {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "localhost:9093"},
    )
    with pytest.raises(StorageError, match=r"ruslo storage format -c PROPERTY_FILE --standalone\n"):
        check_formatted(dynamic)
    write_meta(a)
    with (
        opened(a, b) as logs,
        pytest.raises(StorageError, match=r"(?s)/b is not.*--cluster-id c --ignore-formatted\n"),
    ):
        check_identity(config, logs.directories)


def test_missing_directory_is_not_formatted(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="whether the disk is mounted"):
        check_formatted(broker_config(tmp_path / "nowhere"))


def test_directories_of_another_node(tmp_path: Path) -> None:
    a, b, config = two_directories(tmp_path)
    write_meta(a)
    write_meta(b, cluster_id="d")
    with opened(a, b) as logs, pytest.raises(StorageError, match="belongs to cluster d"):
        check_identity(config, logs.directories)
    write_meta(b, node_id=2)
    with opened(a, b) as logs, pytest.raises(StorageError, match="belongs to node 2"):
        check_identity(config, logs.directories)


def test_copied_directory(tmp_path: Path) -> None:
    a, b, config = two_directories(tmp_path)
    directory_id = random_uuid()
    write_meta(a, directory_id=directory_id)
    write_meta(b, directory_id=directory_id)
    with opened(a, b) as logs, pytest.raises(StorageError, match=r"have the same directory\.id"):
        check_identity(config, logs.directories)


def test_newest_feature_levels_without_a_bootstrap_checkpoint(tmp_path: Path) -> None:
    records = read_bootstrap_records(LocalDisk(str(tmp_path)))
    assert len(records) == 6
    assert records[0].name == "metadata.version"  # type: ignore[attr-defined]
