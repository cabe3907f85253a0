"""The Spark session of one pipeline: pipelines share a Spark, but not the names of their views."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.registration import is_connect, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REPORTS_KEPT = 16
"""Reports are read five times a second, so this many are never exceeded between two reads."""


def new_pipeline_session(spark: SparkSession, pipeline: Pipeline) -> SparkSession:
    from ruslo.pipeline.connectors.table_format import TableDataSource

    # Over Spark Connect a new session would have the server's settings, not those of this session.
    session = spark.cloneSession() if is_connect(spark) else spark.newSession()  # type: ignore[attr-defined]
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", _REPORTS_KEPT)
    for key, value in pipeline.resources.session_settings().items():
        session.conf.set(key, value)
    with _active(session, spark):
        register(session)
        session.dataSource.register(TableDataSource)
    return session


def close_pipeline_session(session: SparkSession) -> None:
    """Stop a Spark Connect session. Classic sessions end with the Spark that they share."""
    if is_connect(session):
        session.stop()


@contextlib.contextmanager
def _active(session: SparkSession, otherwise: SparkSession) -> Iterator[None]:
    """Spark checks the active session to find out whether a data source is registered."""
    if is_connect(session):
        yield  # sessions of Spark Connect are separate
        return
    jvm = session.sparkContext._jvm
    assert jvm is not None, "a classic session has a JVM"
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        sessions.setActiveSession(otherwise._jsparkSession)
