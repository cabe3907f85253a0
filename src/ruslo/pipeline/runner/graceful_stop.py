"""A stop that lets the batch in hand finish.

Spark's own ``stop`` interrupts the batch. What was begun is done again after the next start, so that no
record is lost; but the work is, and sinks without transactions would have it half. So the query is first told
that it is over, which it heeds between batches, and stopped when it rests.

A server of Spark Connect keeps the state out of reach that tells the query so. There the stop comes when the
batch in hand has been reported: it may fall into the beginning of the next one, before anything is written.
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
    works = _batch_in_hand(query) if getattr(query, "_jsq", None) is None else _tell(query)
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
    """Set the state that the query's loop looks at after each batch; the answer tells whether it works on."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    assert jvm is not None, "there is a query, so there is a JVM"
    try:
        execution = query._jsq.streamingQuery()
        thread = execution.queryExecutionThread()
        execution.state().set(jvm.java.lang.Class.forName(_TERMINATED).getField("MODULE$").get(None))
    except Py4JError:
        _log.warning("this Spark hides the state of its queries: a batch may be done again", exc_info=True)
        return lambda: query.isActive
    return lambda: bool(thread.isAlive())


def _batch_in_hand(query: StreamingQuery) -> Callable[[], bool]:
    """The answer tells whether the batch of this moment is still worked on."""
    before = _last_report(query)
    return lambda: query.isActive and _last_report(query) == before


def _last_report(query: StreamingQuery) -> str | None:
    last = query.lastProgress
    return None if last is None else last.timestamp
