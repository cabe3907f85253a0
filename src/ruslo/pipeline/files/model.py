"""A pipeline as it was read from its file: named sources, steps that are views, sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ruslo.pipeline.connectors.base import Sink, Source
from ruslo.pipeline.files.finding import Place

OutputMode: TypeAlias = Literal["append", "update", "complete"]
Row: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late events of a view may come before they are left out."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    source: Source
    watermark: Watermark | None
    place: Place


@dataclass(frozen=True, slots=True)
class Step:
    """A view made from others, by a query or by a function."""

    name: str
    reads: tuple[str, ...]
    """The views it is made from."""
    sql: str | None
    python: str | Callable[..., object] | None
    """``module:function``, or the function itself in a pipeline that is a Python module."""
    arguments: Mapping[str, Any]
    watermark: Watermark | None
    place: Place


@dataclass(frozen=True, slots=True)
class Output:
    """A view and where it goes: one query of Spark."""

    name: str
    view: str
    sink: Sink
    mode: OutputMode
    place: Place


@dataclass(frozen=True, slots=True)
class OnError:
    """A query that failed is started again after a pause that doubles, until it failed too often in a row."""

    restarts: int | None = None
    """None for without end."""
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
        """What holds for the whole of Spark and must be known when it starts."""
        named = {
            "spark.driver.memory": self.driver_memory,
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
            "spark.executor.instances": self.executors,
        }
        static = {key: value for key, value in self.spark.items() if not key.startswith("spark.sql.")}
        return {key: str(value) for key, value in named.items() if value is not None} | static

    def session_settings(self) -> dict[str, str]:
        """What each pipeline may have for itself in a Spark that several share."""
        own = {key: value for key, value in self.spark.items() if key.startswith("spark.sql.")}
        if self.shuffle_partitions is not None:
            own["spark.sql.shuffle.partitions"] = str(self.shuffle_partitions)
        return own


@dataclass(frozen=True, slots=True)
class History:
    """How the past is read before the pipeline goes live: in larger bites, from disk where possible."""

    max_records_per_batch: int | None = None
    scan: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """Given these records, expect those. More than one batch makes a stream of them."""

    name: str
    batches: Sequence[Mapping[str, Sequence[Row]]]
    is_stream: bool
    expect: Mapping[str, Sequence[Row]]
    """Rows by view."""
    ordered: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    path: Path
    description: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    """In an order in which each comes after what it reads."""
    outputs: tuple[Output, ...]
    bootstrap: str | None
    group: str | None
    trigger_ms: int | None
    """None to end when everything that is there has been read (AvailableNow)."""
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
