from __future__ import annotations

import re

import pytest

from ruslo.model.errors import CorruptLogError
from ruslo.model.ids import METADATA_TOPIC_ID, random_uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.partition_files import (
    format_partition_metadata,
    offset_of,
    parse_directory_name,
    parse_partition_metadata,
    renamed_directory,
    snapshot_offsets,
)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("t-0", TopicPartition("t", 0)),
        ("a-b.c_d-17", TopicPartition("a-b.c_d", 17)),
        ("t--1", TopicPartition("t-", 1)),
        ("t", None),
        ("-1", None),
        ("t-", None),
        ("t-x", None),
        ("lost+found", None),
        ("t-٣", None),
    ],
)
def test_directory_names(name: str, partition: TopicPartition | None) -> None:
    assert parse_directory_name(name) == partition


def test_renamed_directories() -> None:
    assert re.fullmatch(
        r"t-5\.[0-9a-f]{32}-delete", renamed_directory(TopicPartition("t", 5), "-delete", random_uuid())
    )
    long = renamed_directory(TopicPartition("x" * 249, 12), "-stray", random_uuid())
    assert len(long) == 255
    assert re.fullmatch(r"x+-12\.[0-9a-f]{32}-stray", long)


def test_partition_metadata_has_no_final_newline() -> None:
    data = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert format_partition_metadata(METADATA_TOPIC_ID) == data
    assert parse_partition_metadata(data, "p") == METADATA_TOPIC_ID


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", b"version: 0\ntopic_id: A"]
)
def test_other_content_is_rejected(data: bytes) -> None:
    with pytest.raises(CorruptLogError):
        parse_partition_metadata(data, "p")


def test_offsets_in_names() -> None:
    assert offset_of("00000000000000000042.log") == 42
    assert offset_of("leader-epoch-checkpoint") is None
    assert snapshot_offsets(
        ["00000000000000000009.snapshot", "00000000000000000002.snapshot", "x.snapshot"]
    ) == [2, 9]
