"""What a connector is: a source or a sink that a pipeline file names by ``type``.

A connector is a frozen dataclass whose fields are the keys that it declares in ``KEYS``; it is made from
a file. Nothing of Spark is imported before it reads or writes, so that lint starts at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ruslo.pipeline.files.shapes import Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Problem(NamedTuple):
    """Something that the keys alone cannot tell; ``key`` is where to point."""

    key: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a connector gets from the pipeline that it is part of, and from the command that runs it."""

    pipeline: str
    folder: Path
    """Paths in the file are relative to this."""
    bootstrap: str
    group: str | None = None
    dead_letters: str | None = None
    start: str | None = None
    """Where to begin instead of where the source says, after a reset."""
    max_records_per_batch: int | None = None
    scan: str | None = None
    staging: str | None = None
    sink: str | None = None
    """The sink's name, for a sink."""
    transactions_at: str | None = None
    """The cluster on which the sink writes a stream in transactions, which can carry dead letters too."""

    def path(self, text: str) -> str:
        """An address with a scheme, and an absolute path, stay what they are."""
        return text if "://" in text or text.startswith("/") else str(self.folder / text)


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    TYPE: ClassVar[str]
    DOC: ClassVar[str]
    KEYS: ClassVar[tuple[Key, ...]]

    @property
    @abstractmethod
    def is_stream(self) -> bool:
        """Whether it goes on, or is a table that is read anew for every batch."""

    @abstractmethod
    def read(self, spark: SparkSession, around: Surroundings) -> DataFrame:
        """The view that the pipeline's steps see."""

    @abstractmethod
    def columns(self) -> str | None:
        """The view's schema where the file tells it; None when only reading tells."""

    def problems(self) -> Iterator[Problem]:
        yield from ()

    @property
    def needs_dead_letters(self) -> bool:
        """Whether the pipeline must name a topic for records that cannot be decoded."""
        return False

    def topics(self) -> tuple[str, ...]:
        """The topics it reads."""
        return ()

    @property
    def cluster(self) -> str | None:
        """Where these topics are, unless it is the pipeline's own cluster."""
        return None


@dataclass(frozen=True, kw_only=True)
class Sink(ABC):
    TYPE: ClassVar[str]
    DOC: ClassVar[str]
    KEYS: ClassVar[tuple[Key, ...]]

    @abstractmethod
    def stream(self, rows: DataFrame, mode: str, around: Surroundings) -> DataStreamWriter:
        """A writer that lacks but trigger, checkpoint, name and the output mode itself."""

    @abstractmethod
    def save(self, rows: DataFrame, around: Surroundings) -> None:
        """Write everything at once: for pipelines that have no stream in them."""

    def problems(self, mode: str) -> Iterator[Problem]:
        yield from ()

    def topics(self) -> tuple[str, ...]:
        return ()

    @property
    def cluster(self) -> str | None:
        return None

    def transactions_at(self, bootstrap: str) -> str | None:
        """The cluster on which it writes transactions, if it does; ``bootstrap`` is the pipeline's own."""
        return None

    def calls_function(self, mode: str) -> bool:
        """Whether a stream is written by a function of ours that Spark calls with each batch."""
        return False

    def left_from_before(self, around: Surroundings) -> str | None:
        """What an earlier checkpoint has left behind that a fresh one would stumble over, if there is any."""
        return None

    def forget(self, around: Surroundings, *, delete: bool) -> None:
        """Take away what ``left_from_before`` tells of; with ``delete`` also what was written."""
        return
