"""A graceful stop: the query finishes its current batch first.

Spark's own ``stop`` interrupts the batch. It is repeated after the next start, so no record is lost, but its
work is, and sinks without transactions keep half of its rows.

- In classic sessions the query's state is set to TERMINATED, which it checks between batches. The query is
  stopped when it is idle.
- A Spark Connect server does not expose that state. The query is stopped when the current batch has been
  reported, which may be at the start of the next batch, before that writes anything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)
_TERMINATED = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED$"


def stop_gracefully(query: StreamingQuery, within_s: float, abandoned: Callable[[], bool]) -> bool:
    """Returns whether the current batch was finished. ``abandoned`` ends the wait early."""
    is_busy = _until_reported(query) if getattr(query, "_jsq", None) is None else _terminate(query)
    deadline = time.monotonic() + within_s
    finished = True
    while is_busy() and query.status["isTriggerActive"]:
        if time.monotonic() > deadline or abandoned():
            finished = False
            break
        time.sleep(0.05)
    query.stop()
    return finished


def _terminate(query: StreamingQuery) -> Callable[[], bool]:
    """Set the state that the query checks after each batch; the result tells whether it is still running."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    assert jvm is not None, "a classic query has a JVM"
    try:
        execution = query._jsq.streamingQuery()
        thread = execution.queryExecutionThread()
        execution.state().set(jvm.java.lang.Class.forName(_TERMINATED).getField("MODULE$").get(None))
    except Py4JError:
        _log.warning("cannot terminate the query between batches: a batch may be repeated", exc_info=True)
        return lambda: query.isActive
    return lambda: bool(thread.isAlive())


def _until_reported(query: StreamingQuery) -> Callable[[], bool]:
    """The result tells whether the current batch is still running."""
    before = _last_report(query)
    return lambda: query.isActive and _last_report(query) == before


def _last_report(query: StreamingQuery) -> str | None:
    last = query.lastProgress
    return None if last is None else last.timestamp
