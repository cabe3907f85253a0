"""Removes staged files: those of committed batches, and those that killed jobs and queries left behind."""

from __future__ import annotations

import re
from typing import Final

from ruslo.pipeline.staging.files import open_files
from ruslo.pipeline.staging.identity import BatchIdentity

_ABANDONED_AFTER_S: Final = 7 * 24 * 3600.0
"""Longer than any task stages without writing a byte: it is unknown whether a remote driver is alive."""
_STAGING_FOLDER: Final = re.compile(
    r"[a-zA-Z0-9._-]+-(job-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
"""The folders of batch jobs and of queries; users may keep other files beside them."""


def remove_written(location: str, identity: BatchIdentity) -> None:
    """Remove the staging of this batch and all earlier ones, including files of killed tasks and drivers."""
    files = open_files(location)
    for name in files.list(identity.query_folder):
        if name.isdecimal() and int(name) <= identity.batch_id:
            files.remove(f"{identity.query_folder}/{name}")


def remove_abandoned(location: str, now_s: float) -> None:
    """Remove what jobs and queries staged that were killed and never restarted.

    A query removes its own files when it is restarted; a batch job has another name each time and cannot.
    """
    files = open_files(location)
    for name in files.list(""):
        if _STAGING_FOLDER.fullmatch(name):
            touched_s = files.touched_s(name)
            if touched_s is not None and now_s - touched_s > _ABANDONED_AFTER_S:
                files.remove(name)
