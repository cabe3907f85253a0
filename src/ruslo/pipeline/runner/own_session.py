"""A session of its own for each pipeline, on the Spark that all share: names of views do not meet there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.registration import is_connect, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REPORTS_KEPT = 16
"""They are all fetched when there is a new one; a supervisor that looks five times a second misses none."""


def own_session(spark: SparkSession, pipeline: Pipeline) -> SparkSession:
    from ruslo.pipeline.connectors.table_format import TableDataSource

    # A new session over Spark Connect would have the server's settings, not those of this one.
    session = spark.cloneSession() if is_connect(spark) else spark.newSession()  # type: ignore[attr-defined]
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", _REPORTS_KEPT)
    for key, value in pipeline.resources.session_settings().items():
        session.conf.set(key, value)
    with _active(session, spark):
        register(session)
        session.dataSource.register(TableDataSource)
    return session


def release(session: SparkSession) -> None:
    """Give back a pipeline's own session. Classic ones end together, with the Spark that they share."""
    if is_connect(session):
        session.stop()


@contextlib.contextmanager
def _active(session: SparkSession, otherwise: SparkSession) -> Iterator[None]:
    """Spark looks into the active session when it asks whether a data source is registered already."""
    if is_connect(session):
        yield  # Spark Connect keeps its sessions apart
        return
    jvm = session.sparkContext._jvm
    assert jvm is not None, "a classic session has a JVM"
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        sessions.setActiveSession(otherwise._jsparkSession)
