"""Loss of files of a node that is down, through a disk or an operator."""

from __future__ import annotations

from random import Random

from ruslo.model.topics import TopicPartition
from ruslo.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_offsets
from ruslo.storage.partition_files import PARTITION_METADATA, segment_bases
from ruslo.storage.segment import LOG_SUFFIX, segment_stem
from ruslo.testing.simulation.disk import MemoryDisk


def has_replica(disk: MemoryDisk, tp: TopicPartition) -> bool:
    return bool(disk.list_names(f"{disk.directory}/{tp}"))


def damage_replica(disk: MemoryDisk, tp: TopicPartition, random: Random) -> str:
    """Damage the files of one replica in a way that the node can detect; returns what was done."""
    path = f"{disk.directory}/{tp}"
    bases = segment_bases(disk.list_names(path))
    choices = ["remove the directory", "empty partition.metadata", "remove partition.metadata"]
    if bases and bases[-1] < _known_end(disk, tp):
        choices += ["remove the last segment", "empty the last segment"]
    chosen = random.choice(choices)
    if chosen == "remove the directory":
        disk.remove_tree(path)
    elif chosen == "empty partition.metadata":
        disk.write_file(f"{path}/{PARTITION_METADATA}", b"")
    elif chosen == "remove partition.metadata":
        disk.unlink(f"{path}/{PARTITION_METADATA}")
    else:
        segment = f"{segment_stem(path, bases[-1])}{LOG_SUFFIX}"
        disk.unlink(segment)
        if chosen == "empty the last segment":
            disk.write_file(segment, b"")
    # The former files must not return with the next power failure.
    disk.sync_everything()
    return f"{chosen} of {tp}"


def _known_end(disk: MemoryDisk, tp: TopicPartition) -> int:
    ends = [read_offsets(disk, f"{disk.directory}/{name}") for name in (HIGH_WATERMARKS, RECOVERY_POINTS)]
    return max((offsets.get(tp, 0) for offsets in ends if offsets is not None), default=0)
