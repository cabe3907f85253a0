"""Database tables through Spark's JDBC data source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ruslo.pipeline.connectors.base import OPTIONS, SCHEMA, PipelineContext, Problem, Sink, Source
from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_CONNECTION = (
    Key("url", Text(), "`jdbc:postgresql://host/database`", required=True),
    Key("user", Text(), "the user name"),
    Key("password", Text(), "the password, preferably as `${VARIABLE}`"),
    Key("driver", Text(), "the driver's class; add its jar with `resources: {spark: {spark.jars: …}}`"),
)


@dataclass(frozen=True, kw_only=True)
class JdbcSource(Source):
    TYPE: ClassVar[str] = "jdbc"
    DOC: ClassVar[str] = "A table or a query of a database, read again for every batch."
    KEYS: ClassVar[tuple[Key, ...]] = (
        *_CONNECTION,
        Key("table", Text(), "the table to read"),
        Key("query", Text(), "a query to read, instead of `table`"),
        SCHEMA,
        OPTIONS,
    )

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    driver: str | None = None
    table: str | None = None
    query: str | None = None
    schema: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_stream(self) -> bool:
        return False

    def columns(self) -> str | None:
        return self.schema

    def problems(self) -> Iterator[Problem]:
        if (self.table is None) == (self.query is None):
            yield Problem(
                "url",
                "the source needs either 'table' or 'query'",
                "Set one of 'table: name' and 'query: …'.",
            )

    def read(self, spark: SparkSession, context: PipelineContext) -> DataFrame:
        what = {"dbtable": self.table} if self.table is not None else {"query": self.query}
        options = _set_options(
            url=self.url, user=self.user, password=self.password, driver=self.driver, **what
        )
        return spark.read.format("jdbc").options(**options, **self.options).load()


@dataclass(frozen=True, kw_only=True)
class JdbcSink(Sink):
    TYPE: ClassVar[str] = "jdbc"
    DOC: ClassVar[str] = (
        "Appends rows to a table. At least once: a batch that failed half-way is written again, so add a "
        "primary key to the table, or write to a staging table."
    )
    KEYS: ClassVar[tuple[Key, ...]] = (
        *_CONNECTION,
        Key("table", Text(), "the table to write to", required=True),
        OPTIONS,
    )

    url: str
    table: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    driver: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def uses_foreach_batch(self, mode: str) -> bool:
        return True

    def stream(self, rows: DataFrame, mode: str, context: PipelineContext) -> DataStreamWriter:
        return rows.writeStream.foreachBatch(lambda batch, batch_id: self.save(batch, context))

    def save(self, rows: DataFrame, context: PipelineContext) -> None:
        options = _set_options(
            url=self.url, user=self.user, password=self.password, driver=self.driver, dbtable=self.table
        )
        rows.write.format("jdbc").options(**options, **self.options).mode("append").save()


def _set_options(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
