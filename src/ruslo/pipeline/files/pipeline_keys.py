"""The top-level keys of a pipeline file."""

from __future__ import annotations

from ruslo.pipeline.files.model import History, OnError, Resources
from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Choice, Duration, Options, Section, Text, Topic, Whole

_ON_ERROR = Section(
    "on_error",
    (
        Key("restarts", Whole(), "the maximum number of restarts in a row; no limit by default"),
        Key(
            "delay",
            Duration(),
            "the delay before the first restart; it doubles with each restart",
            default=1_000,
        ),
        Key("max_delay", Duration(), "the maximum delay", default=60_000),
    ),
    lambda restarts, delay, max_delay: OnError(restarts, delay, max_delay),
    short={"stop": lambda: OnError(restarts=0), "restart": OnError},
)
_RESOURCES = Section(
    "resources",
    (
        Key("driver_memory", Text(), "the memory of the driver, e.g. `1g`"),
        Key("executor_memory", Text(), "the memory of an executor, e.g. `2g`"),
        Key("executor_cores", Whole(1), "concurrent tasks per executor"),
        Key("executors", Whole(1), "the number of executors, if the cluster lets applications choose"),
        Key(
            "shuffle_partitions",
            Whole(1),
            "tasks per join or aggregation; fixed by the first run of a checkpoint",
        ),
        Key("spark", Options(), "any Spark setting by its name", default={}),
    ),
    Resources,
)
_HISTORY = Section(
    "history",
    (
        Key("max_records_per_batch", Whole(1), "the maximum number of records per batch during this phase"),
        Key("scan", Choice(("wire", "direct")), "`direct` reads the broker's segment files"),
    ),
    History,
)
PIPELINE_KEYS = (
    Key("name", Text(), "the name of the pipeline; by default the file's name"),
    Key("description", Text(), "the purpose of the pipeline", default=""),
    Key("bootstrap", Text(), "`HOST:PORT,…` of the cluster; `--bootstrap-server` overrides it"),
    Key("group", Text(), "the consumer group that publishes the pipeline's progress"),
    Key(
        "trigger",
        Duration(("once",)),
        "the interval between batches, or `once` to finish when all records have been read",
        default=0,
    ),
    Key("checkpoint", Text(), "the folder that stores the progress; relative to the file"),
    Key("dead_letters", Topic(), "the dead-letter topic, for records that cannot be decoded"),
    Key("resources", _RESOURCES, "memory, executors, Spark settings", default=Resources()),
    Key("on_error", _ON_ERROR, "the retry policy of failed queries", default=OnError()),
    Key("history", _HISTORY, "read existing records first, in larger batches, then go live"),
)
STRUCTURE_KEYS = {
    "source": "a single source; its view is named `source` unless it has a `name`",
    "sources": "sources by name",
    "steps": "views derived from other views, in any order",
    "sink": "the sink of the last step",
    "sinks": "sinks by name",
    "examples": "given records and expected rows, for `ruslo pipeline test`",
}
