"""The model of a pipeline file: named sources, steps, sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ruslo.pipeline.connectors.base import Sink, Source
from ruslo.pipeline.keys.finding import Location

OutputMode: TypeAlias = Literal["append", "update", "complete"]
Row: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late events of a view may arrive before they are dropped."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    source: Source
    watermark: Watermark | None
    location: Location


@dataclass(frozen=True, slots=True)
class Step:
    """A view derived from other views by a query or a function."""

    name: str
    reads: tuple[str, ...]
    """The views that the step reads."""
    sql: str | None
    python: str | Callable[..., object] | None
    """``module:function``, or the function itself in a pipeline that is a Python module."""
    arguments: Mapping[str, Any]
    watermark: Watermark | None
    location: Location


@dataclass(frozen=True, slots=True)
class Output:
    """A view and its sink: one Spark query."""

    name: str
    view: str
    sink: Sink
    mode: OutputMode
    location: Location


@dataclass(frozen=True, slots=True)
class OnError:
    """The retry policy of a failed query: restart after a delay that doubles with each failure in a row."""

    restarts: int | None = None
    """The maximum number of restarts in a row; None for no limit."""
    delay_ms: int = 1_000
    max_delay_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Resources:
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    executors: int | None = None
    shuffle_partitions: int | None = None
    spark: Mapping[str, str] = field(default_factory=dict)

    def context_settings(self) -> dict[str, str]:
        """Settings of the whole Spark application, required at its start."""
        named = {
            "spark.driver.memory": self.driver_memory,
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
            "spark.executor.instances": self.executors,
        }
        static = {key: value for key, value in self.spark.items() if not key.startswith("spark.sql.")}
        return {key: str(value) for key, value in named.items() if value is not None} | static

    def session_settings(self) -> dict[str, str]:
        """Settings that each pipeline has for itself in a shared Spark."""
        own = {key: value for key, value in self.spark.items() if key.startswith("spark.sql.")}
        if self.shuffle_partitions is not None:
            own["spark.sql.shuffle.partitions"] = str(self.shuffle_partitions)
        return own


@dataclass(frozen=True, slots=True)
class History:
    """How existing records are read before the pipeline goes live."""

    max_records_per_batch: int | None = None
    scan: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """Given records and expected rows. With ``batches`` in the file the example runs as a stream."""

    name: str
    batches: Sequence[Mapping[str, Sequence[Row]]]
    is_stream: bool
    expect: Mapping[str, Sequence[Row]]
    """Expected rows by view."""
    ordered: bool
    location: Location


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    path: Path
    description: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    """Ordered so that each step follows the steps it reads."""
    outputs: tuple[Output, ...]
    bootstrap: str | None
    group: str | None
    trigger_ms: int | None
    """None to finish when all existing records have been read (AvailableNow)."""
    checkpoint: str | None
    dead_letters: str | None
    resources: Resources
    on_error: OnError
    history: History | None
    examples: tuple[Example, ...]

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def views(self) -> list[Input | Step]:
        return [*self.inputs, *self.steps]

    @property
    def is_stream(self) -> bool:
        return any(entry.source.is_stream for entry in self.inputs)
