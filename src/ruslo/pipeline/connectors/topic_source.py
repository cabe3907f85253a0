"""Reads topics as streams of records, and compacted topics as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ruslo.pipeline.connectors.base import BOOTSTRAP, PipelineContext, Problem, Source
from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Choice, Flag, ListOf, Options, Schema, Text, Topic, Whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMATS = ("binary", "string", "json", "avro")
_WITH_FIELDS = ("json", "avro")
# In views these columns start with an underscore, to avoid clashes with fields of the value.
RECORD_COLUMNS = {"topic": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": "TIMESTAMP"}
_HEADERS_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_WITHOUT_SHARE_GROUP = {
    "start": "earliest",
    "max_bytes_per_batch": None,
    "isolation": "read_committed",
    "group": None,
    "scan": "wire",
}
"""Keys that a member of a share group cannot have, and their defaults."""
_ERROR_TYPE = "STRUCT<reason: STRING, key: BINARY, value: BINARY>"
_FORMAT_KEYS = (
    Key("key", Choice(_FORMATS), "the format of keys", default="string"),
    Key("key_schema", Schema(), "the fields of `json` or `avro` keys"),
    Key("value", Choice(_FORMATS), "the format of values", default="json"),
    Key("schema", Schema(), "the fields of `json` or `avro` values"),
    Key("avro_schema", Text(), "the writer's schema of `avro` values, as JSON"),
    Key(
        "on_decode_error",
        Choice(("fail", "drop", "column", "deadletter")),
        "what to do with a record that cannot be decoded; the default is "
        "`deadletter` if the pipeline has `dead_letters`, otherwise `fail`",
    ),
    BOOTSTRAP,
    Key("options", Options(), "more options of the Spark format `ruslo`", default={}),
)


@dataclass(frozen=True, kw_only=True)
class _Records(Source):
    """The decoding that streams and tables share, and the columns it results in."""

    key: str = "string"
    key_schema: str | None = None
    value: str = "json"
    schema: str | None = None
    avro_schema: str | None = None
    on_decode_error: str | None = None
    bootstrap: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def problems(self) -> Iterator[Problem]:
        if self.value == "json" and self.schema is None:
            yield Problem(
                "value",
                "json values need a schema",
                "Add 'schema: id BIGINT, name STRING', or set 'value: string' to read them as text.",
            )
        if self.value not in _WITH_FIELDS and self.schema is not None:
            yield Problem(
                "schema", f"{self.value} values have no schema", "Remove 'schema', or set 'value: json'."
            )
        if self.value == "avro" and self.avro_schema is None:
            yield Problem(
                "value", "avro values need the schema they were written with", "Add 'avro_schema: …'."
            )
        if self.key in _WITH_FIELDS and self.key_schema is None:
            yield Problem("key", f"{self.key} keys need a schema", "Add 'key_schema: …'.")

    def _decoding(self, context: PipelineContext) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap or context.bootstrap,
            "keyFormat": self.key,
            "valueFormat": self.value,
        }
        if self.key_schema is not None:
            options["keySchema"] = self.key_schema
        schema = self.avro_schema if self.value == "avro" else self.schema
        if schema is not None:
            options["valueSchema"] = schema
        on_error = self.on_decode_error or ("deadletter" if context.dead_letters else "fail")
        options["onDecodeError"] = on_error
        if on_error == "deadletter" and context.dead_letters is not None:
            options["deadLetterTopic"] = context.dead_letters
            with_sink = context.transaction_cluster == options["kafka.bootstrap.servers"]
            if with_sink and context.staging is not None and context.sink is not None:
                options |= {"stagingPath": context.staging, "sinkName": context.sink}
        return options

    def _flat(self, records: DataFrame, more: Sequence[str] = ()) -> DataFrame:
        """The value's fields as columns, and the record's own columns with an underscore."""
        from pyspark.sql import functions as F

        own = [F.col("key").alias("_key"), *(F.col(name).alias(f"_{name}") for name in RECORD_COLUMNS)]
        own += [F.col(name).alias(f"_{name}") for name in more]
        if self.on_decode_error == "column":
            own.append(F.col("decodeError").alias("_error"))
        value = "value.*" if self.value in _WITH_FIELDS else "value"
        return records.select(value, *own)

    @property
    def cluster(self) -> str | None:
        return self.bootstrap

    @property
    def needs_dead_letters(self) -> bool:
        return self.on_decode_error == "deadletter"

    def columns(self) -> str | None:
        if self.value in _WITH_FIELDS and self.schema is None:
            return None
        value = {"binary": "value BINARY", "string": "value STRING"}.get(self.value, self.schema or "")
        key = {"binary": "BINARY", "string": "STRING"}.get(self.key, f"STRUCT<{self.key_schema}>")
        own = [f"_key {key}", *(f"_{name} {kind}" for name, kind in RECORD_COLUMNS.items())]
        if self.on_decode_error == "column":
            own.append(f"_error {_ERROR_TYPE}")
        return ", ".join([value, *own])


@dataclass(frozen=True, kw_only=True)
class TopicSource(_Records):
    TYPE: ClassVar[str] = "topic"
    DOC: ClassVar[str] = "The records of topics, as a stream."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("topic", ListOf(Topic()), "the topics to read"),
        Key("pattern", Text(), "a regular expression that topic names must match, instead of `topic`"),
        Key(
            "start",
            Text(),
            "where a new checkpoint starts: `earliest`, `latest`, a time, or offsets as JSON",
            default="earliest",
        ),
        Key("max_records_per_batch", Whole(1), "the maximum number of records per batch"),
        Key("max_bytes_per_batch", Whole(1), "the maximum number of bytes per batch"),
        Key(
            "isolation",
            Choice(("read_committed", "read_uncommitted")),
            "whether to read records of open and aborted transactions",
            default="read_committed",
        ),
        Key("headers", Flag(), "add a column `_headers`", default=False),
        Key("group", Text(), "the consumer group that publishes the pipeline's progress"),
        Key(
            "share_group",
            Text(),
            "read as a member of this share group, whose members share partitions; adds a column "
            "`_delivery_count`",
        ),
        Key(
            "fail_on_data_loss",
            Flag(),
            "fail the query if records were deleted before they were read",
            default=True,
        ),
        Key(
            "scan",
            Choice(("wire", "direct")),
            "`direct` reads the broker's segment files, if Spark has access to them",
            default="wire",
        ),
        *_FORMAT_KEYS,
    )

    topic: tuple[str, ...] | None = None
    pattern: str | None = None
    start: str = "earliest"
    max_records_per_batch: int | None = None
    max_bytes_per_batch: int | None = None
    isolation: str = "read_committed"
    headers: bool = False
    group: str | None = None
    share_group: str | None = None
    fail_on_data_loss: bool = True
    scan: str = "wire"

    @property
    def is_stream(self) -> bool:
        return True

    def topics(self) -> tuple[str, ...]:
        return self.topic or ()

    def problems(self) -> Iterator[Problem]:
        if (self.topic is None) == (self.pattern is None):
            yield Problem(
                "topic",
                "the source needs either 'topic' or 'pattern'",
                "Set one of 'topic: name' and 'pattern: …'.",
            )
        if self.share_group is not None:
            yield from self._share_problems()
        yield from super().problems()

    def _share_problems(self) -> Iterator[Problem]:
        if self.pattern is not None:
            yield Problem(
                "pattern", "a share group reads topics by name", "Set 'topic: name' instead of 'pattern'."
            )
        for key, default in _WITHOUT_SHARE_GROUP.items():
            if getattr(self, key) != default:
                yield Problem(key, f"'{key}' cannot be combined with 'share_group'", f"Remove '{key}'.")

    def columns(self) -> str | None:
        columns = super().columns()
        if columns is not None and self.share_group is not None:
            columns = f"{columns}, _delivery_count INT"
        return f"{columns}, _headers {_HEADERS_TYPE}" if self.headers and columns is not None else columns

    def read(self, spark: SparkSession, context: PipelineContext) -> DataFrame:
        reader = spark.readStream.format("ruslo").options(**self._options(context))
        more = ["delivery_count"] if self.share_group is not None else []
        return self._flat(reader.load(), [*more, *(["headers"] if self.headers else [])])

    def _options(self, context: PipelineContext) -> dict[str, Any]:
        options = self._decoding(context)
        if self.topic is not None:
            options["subscribe"] = ",".join(self.topic)
        else:
            options["subscribePattern"] = self.pattern or ""
        optional = {
            "maxOffsetsPerTrigger": context.max_records_per_batch or self.max_records_per_batch,
            "share.group.id": self.share_group,
        }
        if self.share_group is None:
            options |= start_options(context.start or self.start)
            optional |= {
                "maxBytesPerTrigger": self.max_bytes_per_batch,
                "group.id": self.group or context.group,
                "isolation": self.isolation,
                "scan": context.scan or self.scan,
            }
        options |= {name: str(value) for name, value in optional.items() if value is not None}
        options["includeHeaders"] = str(self.headers).lower()
        options["failOnDataLoss"] = str(self.fail_on_data_loss).lower()
        return options | self.options


@dataclass(frozen=True, kw_only=True)
class TableSource(_Records):
    TYPE: ClassVar[str] = "table"
    DOC: ClassVar[str] = (
        "A compacted topic as a table: the last value of each key, without tombstones. A stream joined with "
        "it reads the table again at the start of each batch."
    )
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("topic", Topic(), "the compacted topic", required=True),
        *_FORMAT_KEYS,
    )

    topic: str

    @property
    def is_stream(self) -> bool:
        return False

    def topics(self) -> tuple[str, ...]:
        return (self.topic,)

    def read(self, spark: SparkSession, context: PipelineContext) -> DataFrame:
        from pyspark.sql import functions as F

        whole = {"subscribe": self.topic, "startingOffsets": "earliest"}
        options = self._decoding(context) | whole | self.options
        records = spark.read.format("ruslo-table").options(**options).load()
        # All records of a key are in one partition, so the highest offset is the latest.
        last = records.groupBy("key").agg(F.max_by(F.struct(*records.columns), "offset").alias("last"))
        return self._flat(last.select("last.*").where("value IS NOT NULL"))


def start_options(start: str) -> dict[str, str]:
    """``earliest``, ``latest`` and JSON are offsets; any other text is a time."""
    from ruslo.client.views.position import iso_time_ms

    if start in ("earliest", "latest") or start.lstrip().startswith("{"):
        return {"startingOffsets": start}
    milliseconds = start if start.isdigit() else str(iso_time_ms(start))
    return {"startingTimestamp": milliseconds}
