from __future__ import annotations

from pathlib import Path

from ruslo.pipeline.sink.files import open_files
from ruslo.pipeline.sink.identity import BatchIdentity
from ruslo.pipeline.sink.writer import remove_written


def test_what_killed_attempts_left_is_removed_with_the_batches_that_are_written(tmp_path: Path) -> None:
    mine, other = BatchIdentity("sink", "mine", 7), BatchIdentity("sink", "other", 3)
    files = open_files(str(tmp_path))
    for folder in (f"{mine.query_folder}/{number}" for number in (3, 7, 8)):
        files.create(f"{folder}/0-1.batches").close()
    files.create(f"{other.staging_folder}/0-1.batches").close()
    remove_written(str(tmp_path), mine)
    assert files.list(mine.query_folder) == ["8"]
    assert files.list(other.query_folder) == ["3"]
