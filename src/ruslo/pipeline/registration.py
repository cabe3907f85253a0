"""Makes ``format("ruslo")`` known to a Spark session, whoever made the session."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_listened: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Register the data source, and publish the progress of queries with ``group.id`` as consumer groups.

    The latter is a listener's work, which looks into the JVM; over Spark Connect the source does it.
    """
    from ruslo.pipeline.datasource import ConnectDataSource, RusloDataSource

    if is_connect(spark):
        spark.dataSource.register(ConnectDataSource)
        return
    spark.dataSource.register(RusloDataSource)
    if spark not in _listened:
        from ruslo.pipeline.group_offsets import GroupOffsetListener

        spark.streams.addListener(GroupOffsetListener(spark))
        _listened.add(spark)


def is_connect(spark: SparkSession) -> bool:
    """Whether it is a client of a Spark Connect server, with no JVM of its own."""
    return getattr(spark, "_jsparkSession", None) is None
