from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.model.errors import StorageError
from ruslo.model.ids import uuid_from_text
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.meta_properties import (
    MetaProperties,
    parse_meta_properties,
    read_meta_properties,
    write_meta_properties,
)

META = MetaProperties("4L6g3nShT-eMCtK--X86sw", 7, uuid_from_text("9XcYBAAvSIuGzHbj6T4HVg"))


def test_reads_the_file_of_kafkas_tool() -> None:
    data = (
        b"#\n#Sun Nov 15 10:00:00 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"
        b"directory.id=9XcYBAAvSIuGzHbj6T4HVg\nnode.id=7\nversion=1\n"
    )
    assert parse_meta_properties(data, "p") == META


def test_round_trip_through_the_disk(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    assert read_meta_properties(disk) is None
    write_meta_properties(disk, META)
    assert read_meta_properties(disk) == META


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"version=1\nnode.id=7\n", "has no cluster.id"),
        (b"version=0\n", "version 0"),
        (b"version=1\ncluster.id=c\nnode.id=x\ndirectory.id=y\n", "cannot be read"),
        (
            b"version=1\ncluster.id=c\nnode.id=7\ndirectory.id=y\n",
            "p has a damaged directory.id: .*; restore",
        ),
        (
            b"version=1\ncluster.id=c\nnode.id=7\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
            "p has a damaged directory.id: .* is a reserved id; restore",
        ),
    ],
)
def test_errors_name_the_problem(data: bytes, problem: str) -> None:
    with pytest.raises(StorageError, match=problem):
        parse_meta_properties(data, "p")


def test_owners() -> None:
    META.check_owner("d", META.cluster_id, 7)
    META.check_owner("d", None, 7)
    with pytest.raises(StorageError, match="belongs to cluster"):
        META.check_owner("d", "another", 7)
    with pytest.raises(StorageError, match="belongs to node 7, this is node 8"):
        META.check_owner("d", META.cluster_id, 8)
