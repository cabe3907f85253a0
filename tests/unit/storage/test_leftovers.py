from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.storage.leftovers import clean_up_leftovers
from ruslo.storage.local_disk import LocalDisk
from tests.unit.storage.workbench import batch


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    path = tmp_path / "t-0"
    path.mkdir()
    return path


def put(log_path: Path, base: int, ending: str, first: int | None = None, last: int | None = None) -> None:
    data = b""
    if first is not None and last is not None:
        data = bytes(batch(last - first + 1, base_offset=first))
    (log_path / f"{base:020d}{ending}").write_bytes(data)


def tidied(log_path: Path) -> set[str]:
    names = [entry.name for entry in log_path.iterdir()]
    left = clean_up_leftovers(LocalDisk(str(log_path.parent)), str(log_path), names)
    assert left == {entry.name for entry in log_path.iterdir()}
    return {f"{int(name[:20])}{name[20:]}" for name in left}


def test_clean_directory(log_path: Path) -> None:
    put(log_path, 0, ".log", 0, 5)
    put(log_path, 0, ".index")
    assert tidied(log_path) == {"0.log", "0.index"}


def test_deleted_cleaned_and_temporary_files_are_removed(log_path: Path) -> None:
    put(log_path, 0, ".log", 0, 5)
    put(log_path, 0, ".log.cleaned", 0, 3)
    put(log_path, 7, ".log.deleted", 7, 8)
    put(log_path, 7, ".index.tmp")
    assert tidied(log_path) == {"0.log"}


def test_complete_swap_replaces_the_covered_segments(log_path: Path) -> None:
    for base in (0, 10, 20, 30):
        for ending in (".log", ".index", ".timeindex", ".txnindex"):
            put(log_path, base, ending, base, base + 9)
    put(log_path, 10, ".log.swap", 12, 29)
    put(log_path, 10, ".index.swap")
    put(log_path, 10, ".timeindex.swap")
    left = tidied(log_path)
    assert {name for name in left if name.endswith(".log")} == {"0.log", "10.log", "30.log"}
    assert "10.index" in left
    assert "20.index" not in left
    assert "10.txnindex" not in left
    assert (log_path / f"{10:020d}.log").read_bytes() == bytes(batch(18, base_offset=12))


def test_an_incomplete_swap_is_undone(log_path: Path) -> None:
    """Segments are renamed to .swap from the highest base offset down; a .cleaned file below is left."""
    for base in (0, 10, 20):
        put(log_path, base, ".log", base, base + 9)
    put(log_path, 0, ".log.cleaned", 0, 9)
    put(log_path, 10, ".log.swap", 10, 29)
    assert tidied(log_path) == {"0.log", "10.log", "20.log"}
