"""Registers ``format("ruslo")`` in any Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_with_listener: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Register the data source, and publish the progress of queries with ``group.id`` as consumer groups.

    In classic sessions a listener publishes it, over Spark Connect the source.
    """
    from ruslo.pipeline.datasource import ConnectDataSource, RusloDataSource

    if is_connect(spark):
        spark.dataSource.register(ConnectDataSource)
        return
    spark.dataSource.register(RusloDataSource)
    if spark not in _with_listener:
        from ruslo.pipeline.group_offset_listener import GroupOffsetListener

        spark.streams.addListener(GroupOffsetListener(spark))
        _with_listener.add(spark)


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a Spark Connect server, without a JVM of its own."""
    return getattr(spark, "_jsparkSession", None) is None
