"""A stop that lets the batch in hand finish.

Spark's own ``stop`` interrupts the batch. What was begun is done again after the next start, so that no
record is lost; but the work is, and sinks without transactions would have it half. So the query is first told
that it is over, which it heeds between batches, and stopped when it rests.
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


def stop_gracefully(query: StreamingQuery, within_s: float, gave_up: Callable[[], bool]) -> bool:
    """Whether the batch in hand was finished; ``gave_up`` tells that nobody wants to wait any longer."""
    works = _tell(query)
    deadline = time.monotonic() + within_s
    finished = True
    while works() and query.status["isTriggerActive"]:
        if time.monotonic() > deadline or gave_up():
            finished = False
            break
        time.sleep(0.05)
    query.stop()
    return finished


def _tell(query: StreamingQuery) -> Callable[[], bool]:
    """Set the state that the query's loop looks at after each batch; the answer tells whether it still works.

    A Connect server keeps that state out of reach: there the stop may fall into the beginning of a batch.
    """
    java_query = getattr(query, "_jsq", None)
    if java_query is None:
        return lambda: query.isActive
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    assert jvm is not None, "there is a query, so there is a JVM"
    try:
        execution = java_query.streamingQuery()
        thread = execution.queryExecutionThread()
        execution.state().set(jvm.java.lang.Class.forName(_TERMINATED).getField("MODULE$").get(None))
    except Py4JError:
        _log.warning("this Spark hides the state of its queries: a batch may be done again", exc_info=True)
        return lambda: query.isActive
    return lambda: bool(thread.isAlive())
