"""Topics as a stream of their records, and compacted topics as tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ruslo.pipeline.connectors.base import Problem, Source, Surroundings
from ruslo.pipeline.connectors.common import BOOTSTRAP
from ruslo.pipeline.files.shapes import Choice, Flag, Key, ListOf, Options, Schema, Text, Topic, Whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMATS = ("binary", "string", "json", "avro")
_WITH_FIELDS = ("json", "avro")
# The record's own columns get a name that no field of a value is likely to have.
RECORD_COLUMNS = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
}
_HEADERS_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_ERROR_TYPE = "STRUCT<reason: STRING, key: BINARY, value: BINARY>"
_FORMAT_KEYS = (
    Key("key", Choice(_FORMATS), "how keys are decoded", default="string"),
    Key("key_schema", Schema(), "the fields of keys that are `json` or `avro`"),
    Key("value", Choice(_FORMATS), "how values are decoded", default="json"),
    Key("schema", Schema(), "the fields of values that are `json` or `avro`"),
    Key("avro_schema", Text(), "the writer's schema of `avro` values, as JSON"),
    Key(
        "on_decode_error",
        Choice(("fail", "drop", "column", "deadletter")),
        "what becomes of a record that cannot be decoded; "
        "`deadletter` when the pipeline has `dead_letters`, else `fail`",
    ),
    BOOTSTRAP,
    Key("options", Options(), "further options of the Spark format `ruslo`", default={}),
)


@dataclass(frozen=True, kw_only=True)
class _Records(Source):
    """What both ways to read a topic share: decoding, and the columns that come of it."""

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
                "values that are json need their fields named",
                "Add 'schema: id BIGINT, name STRING', or 'value: string' to take them as they are.",
            )
        if self.value not in _WITH_FIELDS and self.schema is not None:
            yield Problem(
                "schema", f"values that are {self.value} have no fields", "Remove it, or set 'value: json'."
            )
        if self.value == "avro" and self.avro_schema is None:
            yield Problem(
                "value", "avro needs the schema that values were written with", "Add 'avro_schema: …'."
            )
        if self.key in _WITH_FIELDS and self.key_schema is None:
            yield Problem("key", f"keys that are {self.key} need their fields named", "Add 'key_schema: …'.")

    def _decoding(self, around: Surroundings) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap or around.bootstrap,
            "keyFormat": self.key,
            "valueFormat": self.value,
        }
        if self.key_schema is not None:
            options["keySchema"] = self.key_schema
        schema = self.avro_schema if self.value == "avro" else self.schema
        if schema is not None:
            options["valueSchema"] = schema
        on_error = self.on_decode_error or ("deadletter" if around.dead_letters else "fail")
        options["onDecodeError"] = on_error
        if on_error == "deadletter" and around.dead_letters is not None:
            options["deadLetterTopic"] = around.dead_letters
            with_sink = around.transactions_at == options["kafka.bootstrap.servers"]
            if with_sink and around.staging is not None and around.sink is not None:
                options |= {"stagingPath": around.staging, "sinkName": around.sink}
        return options

    def _flat(self, records: DataFrame, *, headers: bool) -> DataFrame:
        """The value's fields as columns, the record's own with an underscore before them."""
        from pyspark.sql import functions as F

        own = [F.col("key").alias("_key"), *(F.col(name).alias(f"_{name}") for name in RECORD_COLUMNS)]
        if headers:
            own.append(F.col("headers").alias("_headers"))
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
    DOC: ClassVar[str] = "The records of topics, as they come."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("topic", ListOf(Topic()), "what to read"),
        Key("pattern", Text(), "a regular expression that names of topics match, instead of `topic`"),
        Key(
            "start",
            Text(),
            "`earliest`, `latest`, a time, or offsets as JSON: where a new checkpoint begins",
            default="earliest",
        ),
        Key("max_records_per_batch", Whole(1), "at most so many records in one batch"),
        Key("max_bytes_per_batch", Whole(1), "at most so many bytes in one batch"),
        Key(
            "isolation",
            Choice(("read_committed", "read_uncommitted")),
            "whether open and aborted transactions are seen",
            default="read_committed",
        ),
        Key("headers", Flag(), "whether there is a column `_headers`", default=False),
        Key("group", Text(), "the consumer group that shows how far the pipeline is"),
        Key(
            "fail_on_data_loss",
            Flag(),
            "whether records that are gone before they were read end the query",
            default=True,
        ),
        Key(
            "scan",
            Choice(("wire", "direct")),
            "`direct` reads the broker's own files where Spark may",
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
                "topic", "it must be said what to read", "Give 'topic: name' or 'pattern: …', one of them."
            )
        yield from super().problems()

    def columns(self) -> str | None:
        told = super().columns()
        return f"{told}, _headers {_HEADERS_TYPE}" if self.headers and told is not None else told

    def read(self, spark: SparkSession, around: Surroundings) -> DataFrame:
        reader = spark.readStream.format("ruslo").options(**self._options(around))
        return self._flat(reader.load(), headers=self.headers)

    def _options(self, around: Surroundings) -> dict[str, Any]:
        options = self._decoding(around)
        if self.topic is not None:
            options["subscribe"] = ",".join(self.topic)
        else:
            options["subscribePattern"] = self.pattern or ""
        options |= start_options(around.start or self.start)
        records = around.max_records_per_batch or self.max_records_per_batch
        optional = {
            "maxOffsetsPerTrigger": records,
            "maxBytesPerTrigger": self.max_bytes_per_batch,
            "group.id": self.group or around.group,
        }
        options |= {name: str(value) for name, value in optional.items() if value is not None}
        options["isolation"] = self.isolation
        options["includeHeaders"] = str(self.headers).lower()
        options["failOnDataLoss"] = str(self.fail_on_data_loss).lower()
        options["scan"] = around.scan or self.scan
        return options | self.options


@dataclass(frozen=True, kw_only=True)
class TableSource(_Records):
    TYPE: ClassVar[str] = "table"
    DOC: ClassVar[str] = (
        "A compacted topic as a table: the last value of each key, tombstones left out. A stream that is "
        "joined with it sees the table as it is when a batch begins."
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

    def read(self, spark: SparkSession, around: Surroundings) -> DataFrame:
        from pyspark.sql import functions as F

        whole = {"subscribe": self.topic, "startingOffsets": "earliest"}
        options = self._decoding(around) | whole | self.options
        records = spark.read.format("ruslo-table").options(**options).load()
        # The records of a key are in one partition, so that the highest offset is the latest.
        last = records.groupBy("key").agg(F.max_by(F.struct(*records.columns), "offset").alias("last"))
        return self._flat(last.select("last.*").where("value IS NOT NULL"), headers=False)


def start_options(start: str) -> dict[str, str]:
    """``earliest``, ``latest`` and JSON are offsets; everything else is a time."""
    from ruslo.client.views.position import iso_time_ms

    if start in ("earliest", "latest") or start.lstrip().startswith("{"):
        return {"startingOffsets": start}
    milliseconds = start if start.isdigit() else str(iso_time_ms(start))
    return {"startingTimestamp": milliseconds}
