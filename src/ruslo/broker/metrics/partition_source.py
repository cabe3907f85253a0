"""Families of the replicas on this broker: logs, leadership, in-sync replicas and lag."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, Sample, labels_text, single

if TYPE_CHECKING:
    from ruslo.broker.controller.alter_partition_manager import AlterPartitionManager
    from ruslo.broker.partitions.compaction import Compaction
    from ruslo.broker.partitions.leader import IsrChanges
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.broker.partitions.scrubber import Scrubber
    from ruslo.storage.log import Log
    from ruslo.storage.log_manager import LogManager


def log_families(partitions: PartitionManager) -> Iterator[Family]:
    here = [each for each in partitions if not each.gone]
    rows: list[tuple[str, Log]] = []

    def sizes() -> Iterator[Sample]:
        """The first family builds the labels of all four, in its steps."""
        for each in here:
            labels = labels_text({"topic": each.topic, "partition": each.index})
            rows.append((labels, each.log))
            yield Sample(labels, each.log.size_bytes)

    yield Family(catalog.LOG_SIZE, sizes())
    yield Family(catalog.LOG_START, (Sample(labels, log.start_offset) for labels, log in rows))
    yield Family(catalog.LOG_END, (Sample(labels, log.end_offset) for labels, log in rows))
    yield Family(catalog.LOG_SEGMENTS, (Sample(labels, len(log.segments)) for labels, log in rows))


def replica_families(
    partitions: PartitionManager, proposals: AlterPartitionManager, isr_changes: IsrChanges
) -> Iterator[Family]:
    count = leaders = under_replicated = under_min_isr = at_min_isr = 0
    lag_of: dict[int, int] = {}
    for partition in partitions:
        count += 1
        leaders += partition.is_leader
        leader = partition.leader
        if leader is None or leader.replication is None:
            continue
        followers = leader.replication.followers
        copies, in_sync = len(followers) + 1, len(leader.isr)
        if in_sync < copies:
            needed = min(partition.log.config.min_insync_replicas, copies)
            under_replicated += 1
            under_min_isr += in_sync < needed
            at_min_isr += in_sync == needed
        for follower in followers.values():
            lag = partition.log.end_offset - max(follower.end_offset, 0)
            lag_of[follower.broker_id] = max(lag_of.get(follower.broker_id, 0), lag)
    yield single(catalog.PARTITIONS, count)
    yield single(catalog.LEADERS, leaders)
    yield single(catalog.UNDER_REPLICATED, under_replicated)
    yield single(catalog.UNDER_MIN_ISR, under_min_isr)
    yield single(catalog.AT_MIN_ISR, at_min_isr)
    yield single(catalog.OFFLINE_REPLICAS, partitions.offline_count)
    yield single(catalog.ISR_SHRINKS, isr_changes.shrinks)
    yield single(catalog.ISR_EXPANDS, isr_changes.expands)
    yield single(catalog.FAILED_ISR_UPDATES, proposals.rejected)
    yield single(
        catalog.MAX_REPLICA_LAG,
        max((each.follower.lag for each in partitions if not each.is_leader), default=0),
    )
    lags = [Sample(labels_text({"follower": each}), lag) for each, lag in sorted(lag_of.items())]
    yield Family(catalog.FOLLOWER_LAG, lags)


def directory_families(logs: LogManager) -> Iterator[Family]:
    """Available while the logs are being opened, too."""
    recoveries = [(labels_text({"dir": each.path}), each.recovery) for each in logs.directories]
    yield single(catalog.OFFLINE_DIRECTORIES, sum(not each.online for each in logs.directories))
    yield single(catalog.CORDONED_DIRECTORIES, sum(each.cordoned for each in logs.directories))
    yield Family(catalog.LOST_DATA, list(_lost_data(logs)))
    yield Family(catalog.DIRECTORY_FREE, list(_free_space(logs)))
    yield Family(catalog.LOGS_TO_RECOVER, [Sample(labels, each.logs_left) for labels, each in recoveries])
    yield Family(
        catalog.SEGMENTS_TO_RECOVER, [Sample(labels, each.segments_left) for labels, each in recoveries]
    )


def compaction_families(compaction: Compaction) -> Iterator[Family]:
    yield single(catalog.UNCLEANABLE, len(compaction.uncleanable))
    yield single(catalog.COMPACTION_ROUNDS, compaction.rounds)
    yield single(catalog.COMPACTED_BYTES, compaction.bytes_before)
    yield single(catalog.COMPACTION_KEPT_BYTES, compaction.bytes_after)


def scrub_families(scrubber: Scrubber) -> Iterator[Family]:
    yield single(catalog.SCRUBBED_BYTES, scrubber.bytes_checked)
    yield single(catalog.SCRUB_BYTES_LEFT, scrubber.bytes_left)
    yield single(catalog.SCRUB_ROUNDS, scrubber.rounds)
    yield single(catalog.DAMAGED_RANGES, scrubber.damaged_ranges)
    yield single(catalog.REBUILT_INDEXES, scrubber.rebuilt_indexes)
    yield single(catalog.REPAIRED_SEGMENTS, scrubber.repaired_segments)


def _lost_data(logs: LogManager) -> Iterator[Sample]:
    for (partition, kind), count in Counter((each.partition, each.kind) for each in logs.lost_data).items():
        labels = {"topic": partition.topic, "partition": partition.partition, "kind": kind.value}
        yield Sample(labels_text(labels), count)


def _free_space(logs: LogManager) -> Iterator[Sample]:
    for directory in logs.online_directories():
        try:
            volume = os.statvfs(directory.path)
        except OSError:
            # The directory is gone; the next write will report it.
            continue
        yield Sample(labels_text({"dir": directory.path}), volume.f_bavail * volume.f_frsize)
