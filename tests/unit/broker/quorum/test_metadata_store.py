from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ruslo.broker.quorum.metadata_store import MetadataStore
from ruslo.storage.disk import DiskError
from ruslo.testing.sim_disk import SimDisk
from tests.unit.storage.workbench import NOW, ManualClock, batch


def open_store(disk: SimDisk) -> MetadataStore:
    return MetadataStore(
        disk, ManualClock(), segment_bytes=3 * len(batch()), segment_ms=10**9, snapshot_bytes=10**6
    )


@pytest.mark.parametrize("syncs", range(7))
def test_a_power_failure_during_the_flush_of_two_segments(tmp_path: Path, syncs: int) -> None:
    """The first segment was synced when it was closed: without its end the log would count as damaged."""
    disk = SimDisk(str(tmp_path))
    store = open_store(disk)
    for offset in range(5):
        store.append(batch(base_offset=offset, leader_epoch=1), NOW)
        if offset == 0:
            store.log.flush(NOW)
    assert [segment.base_offset for segment in store.log.segments] == [0, 3]
    disk.medium.dies_at = disk.medium.changes + syncs
    with contextlib.suppress(DiskError):
        store.log.flush(NOW)
    # Journaling file systems persist the name of a file with its content.
    disk.medium.unsynced_names.clear()
    disk.medium.lose_power(everything=True)
    again = open_store(SimDisk(str(tmp_path)))
    found = [header.base_offset for header, _ in again.batches(0, again.end_offset)]
    assert found == list(range(again.end_offset))
    assert again.end_offset == (5 if syncs >= 5 else 3)
