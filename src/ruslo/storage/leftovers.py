"""Cleans up files that a crash during a deletion or compaction left in the directory of a partition.

The cleaner writes ``….cleaned`` files, renames them to ``….swap`` when they are complete, and only then
deletes the segments they replace. So ``.cleaned`` files are deleted, and ``.swap`` files replace segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ruslo.records.batch import last_offset_of
from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.disk import Disk
from ruslo.storage.partition_files import OFFSET_DIGITS, offset_of
from ruslo.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_UNFINISHED = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")


def clean_up_leftovers(disk: Disk, log_path: str, names: Iterable[str]) -> set[str]:
    """Finish or undo interrupted operations; returns the names that are left."""
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
    swaps = [name for name in unfinished if name.endswith(SWAP_SUFFIX)]
    if cleaned:
        # Segments are renamed to .swap from the highest base offset down: a .cleaned file is left, so this
        # was not completed.
        for name in [name for name in swaps if (offset_of(name) or 0) >= min(cleaned)]:
            remove(name)
            swaps.remove(name)
    for name in unfinished:
        if not name.endswith(SWAP_SUFFIX):
            remove(name)
    if swaps:
        _replace_segments(disk, log_path, swaps, left, remove)
    return left


def _replace_segments(
    disk: Disk, log_path: str, swaps: list[str], left: set[str], remove: Callable[[str], None]
) -> None:
    """Replace old segments by complete ``.swap`` files.

    There may be a crash after each step, so the directory is synced before the next step relies on it.
    """
    whole = {offset_of(name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)}
    for name in [name for name in swaps if offset_of(name) not in whole]:
        # Either the .log file has its final name already, or it never became .swap and the old index exists.
        final = name.removesuffix(SWAP_SUFFIX)
        if final in left or f"{final[:OFFSET_DIGITS]}{LOG_SUFFIX}" not in left:
            remove(name)
            swaps.remove(name)
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            base = offset_of(name) or 0
            end = _next_offset(disk, f"{log_path}/{name}", base)
            for other in list(left):
                offset = offset_of(other)
                if other.endswith(SUFFIXES) and offset is not None and base <= offset < max(end, base + 1):
                    remove(other)
    disk.sync_directory(log_path)
    for name in sorted(swaps, key=lambda name: name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        final = name.removesuffix(SWAP_SUFFIX)
        disk.rename(f"{log_path}/{name}", f"{log_path}/{final}")
        left.discard(name)
        left.add(final)
    disk.sync_directory(log_path)


def _next_offset(disk: Disk, path: str, base_offset: int) -> int:
    file = disk.open(path)
    end = base_offset
    for _, header in scan_headers(file, 0, file.size(), SCAN_BYTES):
        end = last_offset_of(header) + 1
    return end
