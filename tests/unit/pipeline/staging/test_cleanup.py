from __future__ import annotations

import time
import uuid
from pathlib import Path

from ruslo.pipeline.staging.files import open_files
from ruslo.pipeline.staging.folder import remove_abandoned, remove_written
from ruslo.pipeline.staging.identity import BatchIdentity, JobIdentity


def test_files_of_killed_attempts_are_removed_with_the_written_batches(tmp_path: Path) -> None:
    mine, other = BatchIdentity("sink", "mine", 7), BatchIdentity("sink", "other", 3)
    files = open_files(str(tmp_path))
    for folder in (f"{mine.query_folder}/{number}" for number in (3, 7, 8)):
        files.create(f"{folder}/0-1.batches").close()
    files.create(f"{other.staging_folder}/0-1.batches").close()
    remove_written(str(tmp_path), mine)
    assert files.list(mine.query_folder) == ["8"]
    assert files.list(other.query_folder) == ["3"]


def test_staging_folders_are_removed_after_a_week_but_not_files_of_users(tmp_path: Path) -> None:
    job = JobIdentity("sink", uuid.uuid4().hex).staging_folder
    query = BatchIdentity("copy", str(uuid.uuid4()), 4).query_folder
    files = open_files(str(tmp_path))
    for path in (f"{job}/0-1.batches", f"{query}/4/0-1.batches", "holiday-photos/1.jpg", ".ruslo-staging"):
        files.create(path).close()
    day_s = 24 * 3600
    remove_abandoned(str(tmp_path), time.time() + 6 * day_s)
    assert sorted(files.list("")) == sorted([".ruslo-staging", job, query, "holiday-photos"])
    remove_abandoned(str(tmp_path), time.time() + 8 * day_s)
    assert sorted(files.list("")) == [".ruslo-staging", "holiday-photos"]
