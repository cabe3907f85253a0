"""What a cleaner is told about a round, and what it reports; both travel as lines of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

NO_DATA = -1


@dataclass(frozen=True, slots=True)
class SourceSegment:
    base_offset: int
    size: int
    next_base: int
    """Base offset of the segment after it."""


@dataclass(frozen=True, slots=True)
class CleanTask:
    directory: str
    """The log directory."""
    path: str
    """The partition's directory."""
    segments: list[SourceSegment]
    """From the log's first segment to the one that holds the last offset of the round."""
    txn_index_segments: list[int]
    """Base offsets of all segments of the log that have a transaction index, also of later ones."""
    first_dirty_offset: int
    """Below it every key is there once; what follows has not been compacted yet."""
    end_offset: int
    """Where the round ends: nothing at or past it is touched."""
    now_ms: int
    producers: dict[int, tuple[int, int]]
    """Producers that are still active: their last data offset (-1: only markers), and their epoch."""
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    memory_bytes: int = 128 << 20
    """For the keys of a round (``log.cleaner.dedupe.buffer.size``)."""
    io_buffer_bytes: int = 512 << 10
    io_bytes_per_second: float | None = None
    """Reads and writes together; None: as fast as it goes."""


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A new segment is complete and synced, under names that end in ``.cleaned``."""

    base_offset: int
    size: int
    has_txn_index: bool
    replaces: list[int]
    """Base offsets of the segments it stands for."""


@dataclass(slots=True)
class CleanStats:
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    keys_passes: int = 0
    """How often the keys were gone through because they did not fit into memory at once."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """One line from the cleaner: a segment, or the end of the round, well or badly."""

    segment: CleanedSegment | None = None
    done: CleanStats | None = None
    failure: Failure | None = None
    starving: bool = False
    """It gave up because others leave it no processor time: only a new process can have a higher priority."""


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    disk_errno: int | None = None
    """Set if the file system failed; else the log itself cannot be compacted."""
    path: str = field(default="")
