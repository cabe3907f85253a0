"""A Spark driver for kill tests: copies a topic to another in micro-batches, and ends when all is copied.

    python -m tests.pipeline.copy_job BOOTSTRAP SOURCE TARGET CHECKPOINT DELIVERY RECORDS_PER_BATCH [GROUP]

With GROUP, the driver reads as a member of this share group.

A query that fails, because a broker or a worker was killed, is restarted from its checkpoint.
"""

from __future__ import annotations

import sys
import time

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ruslo.pipeline.session import new_session
from tests.pipeline.conftest import SPARK_TEST_CONFIG

GROUP = "copy"
RESTARTS_MAX = 15


def main(arguments: list[str]) -> int:
    bootstrap, source, target, checkpoint, delivery, records_per_batch, *share_group = arguments
    # Four attempts per task, as on a cluster; plain local[2] has one.
    spark = new_session("copy", "local[2,4]", {**SPARK_TEST_CONFIG, "spark.log.level": "OFF"})

    def start() -> StreamingQuery:
        return start_copy(
            spark, bootstrap, source, target, checkpoint, delivery, records_per_batch, *share_group
        )

    for _ in range(RESTARTS_MAX):
        query = start()
        print("started", flush=True)
        try:
            query.awaitTermination()
            spark.stop()
            return 0
        except StreamingQueryException as error:
            print("failed:", error, flush=True)
            time.sleep(0.2)
    return 1


def start_copy(
    spark: SparkSession,
    bootstrap: str,
    source: str,
    target: str,
    checkpoint: str,
    delivery: str,
    records_per_batch: str,
    share_group: str | None = None,
) -> StreamingQuery:
    reader = (
        spark.readStream.format("ruslo")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("maxOffsetsPerTrigger", records_per_batch)
    )
    if share_group is None:
        reader = reader.option("startingOffsets", "earliest").option("group.id", GROUP)
    else:
        reader = reader.option("share.group.id", share_group)
    records = reader.load()
    return (
        records.select("key", "value", "timestamp")
        .writeStream.format("ruslo")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("delivery", delivery)
        .option("stagingMemory", "1k")  # This is small, so that files are used, too.
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
