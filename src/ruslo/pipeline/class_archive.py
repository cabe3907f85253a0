"""The class archive of Spark's JVM (Java's class-data sharing): Spark starts in about half the time with it.

Without it every start of the JVM loads and verifies some 15,000 classes from jars. An archive belongs to one
Java and one installation of Spark; Java ignores it with any other. It is built once, in a process of its own:

    python -m ruslo.pipeline.class_archive
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ruslo.pipeline.cache_folder import cache_folder
from ruslo.pipeline.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWITCH: Final = "RUSLO_SPARK_CLASS_ARCHIVE"
"""An environment variable: ``off`` neither uses nor builds an archive."""
DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_MAX_ARCHIVES: Final = 3
"""The newest archives are kept: each takes some 170 MB, and an upgrade of Spark or Java leaves one behind."""
_LOWEST_PRIORITY: Final = 19
_IN_BACKGROUND: Final = "--background"


def archive_path() -> Path | None:
    """The path of the archive of this Java and this Spark, built or not; None if they cannot have one."""
    spark = find_spec("pyspark")
    folder = cache_folder("spark")
    # Java splits its options at blanks.
    if os.environ.get(SWITCH) == "off" or spark is None or spark.origin is None or " " in str(folder):
        return None
    jars = Path(spark.origin).parent / "jars"
    release = find_java_home() / "release"
    if not jars.is_dir() or not release.is_file():
        return None
    identity = f"{release.read_text(errors='replace')}{jars}{jars.stat().st_mtime_ns}"
    return folder / f"{blake2b(identity.encode(), digest_size=8).hexdigest()}.jsa"


def java_options() -> str:
    """The options of a JVM that uses the archive; empty without one."""
    path = archive_path()
    return f"-XX:SharedArchiveFile={path} -Xshare:auto -Xlog:cds=off" if path and path.exists() else ""


def build_in_background() -> Path | None:
    """Start to build the archive, at the lowest priority, if it does not exist; returns its path then."""
    path = archive_path()
    if path is None or path.exists():
        return None
    subprocess.Popen(
        [sys.executable, "-m", __name__, _IN_BACKGROUND],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return path


def build() -> str:
    """Build the archive, unless it exists or another process builds it."""
    path = archive_path()
    if path is None:
        return "No class archive can be built: install pyspark and a Java with a release file."
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return f"Another process builds {path}."
        if not path.exists():
            _build(path)
            _remove_old_archives(path.parent)
    return str(path)


def _build(path: Path) -> None:
    from ruslo.pipeline.session import new_session

    partial = path.with_suffix(".partial")
    options = f"-XX:ArchiveClassesAtExit={partial} -Xlog:cds=off -Xlog:cds+dynamic=off"
    settings = {DRIVER_OPTIONS: options, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    spark = new_session("class archive", "local[1]", settings)
    _use_typical_classes(spark)
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    # The JVM writes the archive when it ends, which it does when its standard input ends.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    partial.rename(path)


def _use_typical_classes(spark: SparkSession) -> None:
    """Run what pipelines run: SQL, JSON, and streams with and without state."""
    spark.sql("SELECT id % 7 AS k, count(*) FROM range(100) GROUP BY k ORDER BY k").collect()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rows.json").write_text('{"a": 1, "at": "2020-01-01T00:00:00"}\n')
        rows = spark.readStream.schema("a INT, at TIMESTAMP").json(folder)
        counts = rows.withWatermark("at", "1 second").groupBy("at").count()
        for query, mode in ((rows.selectExpr("a * 2 AS b"), "append"), (counts, "update")):
            stream = query.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
            stream.start().awaitTermination()


def _remove_old_archives(folder: Path) -> None:
    newest_first = sorted(folder.glob("*.jsa"), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in newest_first[_MAX_ARCHIVES:]:
        old.unlink(missing_ok=True)


if __name__ == "__main__":
    if _IN_BACKGROUND in sys.argv:
        os.nice(_LOWEST_PRIORITY)
    print(build())
