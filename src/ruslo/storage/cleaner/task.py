"""The task of a cleaner, and its reports; both are sent as lines of JSON."""

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
    """The partition directory."""
    segments: list[SourceSegment]
    """From the first segment of the log to the one with the last offset of the round."""
    txn_index_segments: list[int]
    """Base offsets of all segments of the log that have a transaction index, later ones included."""
    first_dirty_offset: int
    """Below this offset the log is compacted: every key has one record."""
    end_offset: int
    """Records at or past this offset are not compacted."""
    now_ms: int
    producers: dict[int, tuple[int, int]]
    """Active producers: last data offset (-1: only markers), and epoch."""
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    memory_bytes: int = 128 << 20
    """Memory for the keys of a round (``log.cleaner.dedupe.buffer.size``)."""
    io_buffer_bytes: int = 512 << 10
    io_bytes_per_second: float | None = None
    """Limit of reads and writes together; None: unlimited."""


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A new segment, complete and synced, with file names that end in ``.cleaned``."""

    base_offset: int
    size: int
    has_txn_index: bool
    replaces: list[int]
    """Base offsets of the segments that it replaces."""


@dataclass(slots=True)
class CleanStats:
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    keys_passes: int = 0
    """Number of passes over the keys; more than one if they did not fit into memory."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """One line of the cleaner: a segment, or the end of the round with its result."""

    segment: CleanedSegment | None = None
    done: CleanStats | None = None
    failure: Failure | None = None
    starving: bool = False
    """Whether the round ended because the cleaner gets no CPU time (see ``cpu_priority``)."""


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    disk_errno: int | None = None
    """Set if the file system failed; None if the log itself cannot be compacted."""
    path: str = field(default="")
