"""Makes ``format("ruslo")`` known to a Spark session, whoever made the session."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_listened: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Register the data source, and publish the progress of queries with ``group.id`` as consumer groups.

    The latter looks into the JVM, which a client of Spark Connect cannot.
    """
    from pyspark.sql.utils import is_remote

    from ruslo.pipeline.datasource import RusloDataSource

    spark.dataSource.register(RusloDataSource)
    if not is_remote() and spark not in _listened:
        from ruslo.pipeline.group_offsets import GroupOffsetListener

        spark.streams.addListener(GroupOffsetListener(spark))
        _listened.add(spark)
