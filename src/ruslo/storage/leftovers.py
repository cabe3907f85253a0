"""What a crash in the middle of a deletion or a compaction leaves in a partition's directory.

The cleaner writes ``….cleaned`` files, renames them to ``….swap`` once they are complete, and only then
removes the segments they replace; so ``.cleaned`` is worthless and ``.swap`` must be put in place.
"""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.disk import Disk
from ruslo.storage.partition_files import offset_of
from ruslo.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_UNFINISHED = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")


def tidy(disk: Disk, log_path: str, names: Iterable[str]) -> set[str]:
    """Finish or undo what was under way; returns the names that are left."""
    left = set(names)
    unfinished = [name for name in left if name.endswith(_UNFINISHED)]
    if not unfinished:
        return left

    def remove(name: str) -> None:
        disk.unlink(f"{log_path}/{name}")
        left.discard(name)

    cleaned = [
        offset
        for name in unfinished
        if name.endswith(CLEANED_SUFFIX)
        if (offset := offset_of(name)) is not None
    ]
    swaps = []
    for name in unfinished:
        if not name.endswith(SWAP_SUFFIX):
            remove(name)
        elif cleaned and (offset_of(name) or 0) >= min(cleaned):
            # Renaming to .swap goes from the highest base down: with a .cleaned left over it was not
            # complete.
            remove(name)
        else:
            swaps.append(name)
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            base = offset_of(name) or 0
            end = _next_offset(disk, f"{log_path}/{name}", base)
            for other in list(left):
                offset = offset_of(other)
                if other.endswith(SUFFIXES) and offset is not None and base <= offset < max(end, base + 1):
                    remove(other)
    for name in swaps:
        final = name.removesuffix(SWAP_SUFFIX)
        disk.rename(f"{log_path}/{name}", f"{log_path}/{final}")
        left.discard(name)
        left.add(final)
    return left


def _next_offset(disk: Disk, path: str, base_offset: int) -> int:
    file = disk.open(path)
    end = base_offset
    for _, header in scan_headers(file, 0, file.size(), SCAN_BYTES):
        end = header[0] + header[6] + 1
    return end
