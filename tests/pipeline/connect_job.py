"""A job over Spark Connect, in its own process: a process with a classic session cannot use both.

    python -m tests.pipeline.connect_job ADDRESS BOOTSTRAP CHECKPOINT

Writes numbers to a topic, reads them decoded, and copies them to another topic: first all of them, then again
from a checkpoint without the commit of its last batch. Prints the results as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ruslo.pipeline.session import new_session
from tests.pipeline.copy_job import start_copy
from tests.pipeline.pipelines import forget_last_commit

NUMBERS, COPY = "numbers", "copy"
ROWS = 600
RECORDS_PER_BATCH = 250


def main(arguments: list[str]) -> int:
    address, bootstrap, checkpoint = arguments
    spark = new_session("connect", address)
    broker = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(ROWS).selectExpr("string(id) AS key", "to_json(named_struct('n', id)) AS value")
    rows.write.format("ruslo").options(**broker, topic=NUMBERS, compression="lz4").mode("append").save()
    decoded = spark.read.format("ruslo").options(
        **broker, subscribe=NUMBERS, valueFormat="json", valueSchema="n BIGINT", columns="value,partition"
    )
    (sums,) = decoded.load().selectExpr("count(*)", "sum(value.n)", "count(DISTINCT partition)").collect()
    copied = [_copy(address, bootstrap, checkpoint)]
    forget_last_commit(Path(checkpoint))
    copied.append(_copy(address, bootstrap, checkpoint))
    print(json.dumps({"decoded": list(sums), "copied": copied}))
    return 0


def _copy(address: str, bootstrap: str, checkpoint: str) -> list[int]:
    """Return the sizes of the batches and stop the session."""
    spark = new_session("connect", address)
    query = start_copy(spark, bootstrap, NUMBERS, COPY, checkpoint, "exactly_once", str(RECORDS_PER_BATCH))
    query.awaitTermination()
    sizes = [progress.numInputRows for progress in query.recentProgress]
    spark.stop()
    return sizes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
