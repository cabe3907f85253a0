"""Clears the staging folder: what is written is not needed any more, what its owner forgot never will be."""

from __future__ import annotations

import re
from typing import Final

from ruslo.pipeline.sink.files import open_files
from ruslo.pipeline.sink.identity import BatchIdentity

_ABANDONED_AFTER_S: Final = 7 * 24 * 3600.0
"""Longer than any task stages without writing a byte. Whether a driver elsewhere lives cannot be seen."""
_OURS: Final = re.compile(r"[a-zA-Z0-9._-]+-(job-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""The folders of batch jobs and of queries; users may keep other things beside them."""


def remove_written(location: str, identity: BatchIdentity) -> None:
    """Remove the staging of this batch and all before it: also what killed tasks and drivers have left."""
    files = open_files(location)
    for name in files.list(identity.query_folder):
        if name.isdecimal() and int(name) <= identity.batch_id:
            files.remove(f"{identity.query_folder}/{name}")


def remove_abandoned(location: str, now_s: float) -> None:
    """Remove what jobs and queries staged that were killed and never came back.

    A query clears up after itself when it is started again; a batch job has another name each time, so that
    nobody would.
    """
    files = open_files(location)
    for name in files.list(""):
        if _OURS.fullmatch(name):
            touched_s = files.touched_s(name)
            if touched_s is not None and now_s - touched_s > _ABANDONED_AFTER_S:
                files.remove(name)
