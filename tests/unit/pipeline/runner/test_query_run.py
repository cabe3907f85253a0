"""Restarts with a fake clock; tests/pipeline runs real queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.spark_format import ConsoleSink
from ruslo.pipeline.files.model import OnError, Output
from ruslo.pipeline.keys.finding import Location
from ruslo.pipeline.runner.query_run import Phase, QueryRun, QueryState

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

OUTPUT = Output("out", "view", ConsoleSink(), "append", Location(Path("p.yaml"), 1, 1))


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def failing(error: Exception, on_error: OnError, clock: Clock) -> tuple[QueryRun, list[float]]:
    starts: list[float] = []

    def start(phase: Phase) -> StreamingQuery:
        starts.append(clock.now_s)
        raise error

    return QueryRun(OUTPUT, (Phase.LIVE,), on_error, start, clock), starts


def test_delays_double_up_to_the_maximum() -> None:
    clock = Clock()
    run, starts = failing(OSError("not now"), OnError(None, 1_000, 5_000), clock)
    for _ in range(100):
        run.tick()
        clock.now_s += 0.25
    assert [round(at - 100, 1) for at in starts][:5] == [0.0, 1.0, 3.0, 7.0, 12.0]
    assert (run.state, run.error) == (QueryState.WAITING, "not now")


def test_a_query_fails_after_its_last_restart() -> None:
    clock = Clock()
    run, starts = failing(OSError("not now"), OnError(2, 1_000, 5_000), clock)
    for _ in range(20):
        run.tick()
        clock.now_s += 1
    assert (run.state, len(starts), run.restarts) == (QueryState.FAILED, 3, 2)


def test_a_config_error_is_not_retried() -> None:
    run, starts = failing(ConfigError("no such column"), OnError(), Clock())
    run.tick()
    run.tick()
    assert (run.state, len(starts), run.error) == (QueryState.FAILED, 1, "no such column")


def test_a_waiting_query_can_be_stopped() -> None:
    run, starts = failing(OSError("not now"), OnError(), Clock())
    run.tick()
    run.stop(1, lambda: False)
    run.tick()
    assert (run.state, len(starts)) == (QueryState.STOPPED, 1)
