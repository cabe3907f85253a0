"""Connectors: the sources and sinks that a pipeline file names by ``type``.

A connector is a frozen dataclass whose fields are the keys in ``KEYS``. It imports Spark only when it reads
or writes, so lint starts fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Options, Schema, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BOOTSTRAP = Key("bootstrap", Text(), "`HOST:PORT,…` of the cluster, if it is not the pipeline's")
OPTIONS = Key("options", Options(), "options of the Spark format, passed unchanged", default={})
SCHEMA = Key("schema", Schema(), "the columns; required by `ruslo pipeline test`")


class Problem(NamedTuple):
    """A problem with a combination of keys; ``key`` is the one to report."""

    key: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """What a connector needs to know of its pipeline and of the command that runs it."""

    pipeline: str
    folder: Path
    """The folder that relative paths in the file start from."""
    bootstrap: str
    group: str | None = None
    dead_letters: str | None = None
    start: str | None = None
    """The start position that a reset has set; it overrides the source's own."""
    max_records_per_batch: int | None = None
    scan: str | None = None
    staging: str | None = None
    sink: str | None = None
    """The name of the sink that the query writes to."""
    transaction_cluster: str | None = None
    """The cluster to which the sink writes transactions, which can include dead letters."""

    def path(self, text: str) -> str:
        """URLs and absolute paths are returned unchanged."""
        return text if "://" in text or text.startswith("/") else str(self.folder / text)


@dataclass(frozen=True, kw_only=True)
class Connector(ABC):
    TYPE: ClassVar[str]
    DOC: ClassVar[str]
    KEYS: ClassVar[tuple[Key, ...]]

    def topics(self) -> tuple[str, ...]:
        """The topics it reads or writes."""
        return ()

    @property
    def cluster(self) -> str | None:
        """The cluster of these topics, unless it is the pipeline's own."""
        return None


@dataclass(frozen=True, kw_only=True)
class Source(Connector):
    @property
    @abstractmethod
    def is_stream(self) -> bool:
        """Whether it is a stream, or a table that is read again for every batch."""

    @abstractmethod
    def read(self, spark: SparkSession, context: PipelineContext) -> DataFrame:
        """The view that the pipeline's steps read."""

    @abstractmethod
    def columns(self) -> str | None:
        """The view's schema if the file declares it; None if it is known only after reading."""

    def problems(self) -> Iterator[Problem]:
        yield from ()

    @property
    def share_group(self) -> str | None:
        """The share group whose members, one per query, each get a part of the records."""
        return None

    @property
    def needs_dead_letters(self) -> bool:
        """Whether the pipeline must name a dead-letter topic."""
        return False


@dataclass(frozen=True, kw_only=True)
class Sink(Connector):
    @abstractmethod
    def stream(self, rows: DataFrame, mode: str, context: PipelineContext) -> DataStreamWriter:
        """A writer without trigger, checkpoint, name and output mode, which the runner sets."""

    @abstractmethod
    def save(self, rows: DataFrame, context: PipelineContext) -> None:
        """Write all rows in one batch, for pipelines without streams."""

    def problems(self, mode: str) -> Iterator[Problem]:
        yield from ()

    def transaction_cluster(self, bootstrap: str) -> str | None:
        """The cluster to which it writes transactions, if it does; ``bootstrap`` is the pipeline's own."""
        return None

    def uses_foreach_batch(self, mode: str) -> bool:
        """Whether a stream is written with Spark's foreachBatch."""
        return False

    def old_batch_log(self, context: PipelineContext) -> str | None:
        """Describes a batch log of an earlier checkpoint, which makes a new checkpoint lose batches."""
        return None

    def remove_batch_log(self, context: PipelineContext, *, delete: bool) -> None:
        """Remove the batch log; with ``delete`` also what was written."""
        return
