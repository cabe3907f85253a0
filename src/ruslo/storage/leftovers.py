"""What a crash in the middle of a deletion or a compaction leaves in a partition's directory.

The cleaner writes ``….cleaned`` files, renames them to ``….swap`` once they are complete, and only then
removes the segments they replace; so ``.cleaned`` is worthless and ``.swap`` must be put in place.
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
    swaps = [name for name in unfinished if name.endswith(SWAP_SUFFIX)]
    if cleaned:
        # Renaming to .swap goes from the highest base down: with a .cleaned left over it was not complete.
        for name in [name for name in swaps if (offset_of(name) or 0) >= min(cleaned)]:
            remove(name)
            swaps.remove(name)
    for name in unfinished:
        if not name.endswith(SWAP_SUFFIX):
            remove(name)
    if swaps:
        _put_in_place(disk, log_path, swaps, left, remove)
    return left


def _put_in_place(
    disk: Disk, log_path: str, swaps: list[str], left: set[str], remove: Callable[[str], None]
) -> None:
    """Let complete ``.swap`` files take the place of what they were made from.

    Each step may be the last one before the next crash, so names are synced before the next relies on them.
    """
    whole = {offset_of(name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)}
    for name in [name for name in swaps if offset_of(name) not in whole]:
        # Its log has its last name already; or it never came, then the index of the old one is there.
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
