"""The keys at the top of a pipeline file."""

from __future__ import annotations

from ruslo.pipeline.files.model import History, OnError, Resources
from ruslo.pipeline.files.shapes import Choice, Duration, Key, Options, Section, Text, Topic, Whole

_ON_ERROR = Section(
    "on_error",
    (
        Key(
            "restarts", Whole(), "after so many failures in a row the pipeline ends; without end if not given"
        ),
        Key("delay", Duration(), "the pause before the first restart, which then doubles", default=1_000),
        Key("max_delay", Duration(), "the longest pause", default=60_000),
    ),
    lambda restarts, delay, max_delay: OnError(restarts, delay, max_delay),
    short={"stop": lambda: OnError(restarts=0), "restart": OnError},
)
_RESOURCES = Section(
    "resources",
    (
        Key("driver_memory", Text(), "e.g. `1g`"),
        Key("executor_memory", Text(), "e.g. `2g`"),
        Key("executor_cores", Whole(1), "tasks that run at once in one executor"),
        Key("executors", Whole(1), "how many, where the cluster leaves the choice"),
        Key(
            "shuffle_partitions",
            Whole(1),
            "tasks of a join or an aggregation; fixed by the first run of a checkpoint",
        ),
        Key("spark", Options(), "any setting of Spark by its name", default={}),
    ),
    Resources,
)
_HISTORY = Section(
    "history",
    (
        Key("max_records_per_batch", Whole(1), "the size of batches while the past is read"),
        Key("scan", Choice(("wire", "direct")), "`direct` reads the broker's own files where Spark may"),
    ),
    History,
)
PIPELINE_KEYS = (
    Key("name", Text(), "what it is called; the file's name if not given"),
    Key("description", Text(), "what it is for", default=""),
    Key("bootstrap", Text(), "`HOST:PORT,…` of the cluster; `--bootstrap-server` wins"),
    Key("group", Text(), "the consumer group that shows how far the pipeline is"),
    Key(
        "trigger",
        Duration(("once",)),
        "the time between batches, or `once` to end when all has been read",
        default=0,
    ),
    Key("checkpoint", Text(), "the folder that remembers how far it is; relative to the file"),
    Key("dead_letters", Topic(), "the topic for records that cannot be decoded"),
    Key("resources", _RESOURCES, "memory, executors, settings of Spark", default=Resources()),
    Key("on_error", _ON_ERROR, "what happens when a query fails", default=OnError()),
    Key("history", _HISTORY, "read the past first, in larger batches, and then go live"),
)
STRUCTURE_KEYS = {
    "source": "a single source; its view is called `source` unless it has a `name`",
    "sources": "sources by name",
    "steps": "views made from others, in any order",
    "sink": "where the last step goes",
    "sinks": "sinks by name",
    "examples": "records that are given and expected, for `ruslo pipeline test`",
}
