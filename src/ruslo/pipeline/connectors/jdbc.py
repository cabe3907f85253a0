"""Tables of a database, through Spark's JDBC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ruslo.pipeline.connectors.base import Problem, Sink, Source, Surroundings
from ruslo.pipeline.connectors.common import OPTIONS, SCHEMA
from ruslo.pipeline.files.shapes import Key, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_CONNECTION = (
    Key("url", Text(), "`jdbc:postgresql://host/database`", required=True),
    Key("user", Text(), "who logs in"),
    Key("password", Text(), "best as `${VARIABLE}`"),
    Key("driver", Text(), "the driver's class; its jar comes by `resources: {spark: {spark.jars: …}}`"),
)


@dataclass(frozen=True, kw_only=True)
class JdbcSource(Source):
    TYPE: ClassVar[str] = "jdbc"
    DOC: ClassVar[str] = "A table or a query of a database, read anew for every batch."
    KEYS: ClassVar[tuple[Key, ...]] = (
        *_CONNECTION,
        Key("table", Text(), "what to read"),
        Key("query", Text(), "a query, instead of `table`"),
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
                "url", "it must be said what to read", "Give 'table: name' or 'query: …', one of them."
            )

    def read(self, spark: SparkSession, around: Surroundings) -> DataFrame:
        what = {"dbtable": self.table} if self.table is not None else {"query": self.query}
        options = _given(url=self.url, user=self.user, password=self.password, driver=self.driver, **what)
        return spark.read.format("jdbc").options(**options, **self.options).load()


@dataclass(frozen=True, kw_only=True)
class JdbcSink(Sink):
    TYPE: ClassVar[str] = "jdbc"
    DOC: ClassVar[str] = (
        "Rows appended to a table. At least once: a batch that failed half-way is written again, so give the "
        "table a primary key, or write to a staging table."
    )
    KEYS: ClassVar[tuple[Key, ...]] = (
        *_CONNECTION,
        Key("table", Text(), "where to write", required=True),
        OPTIONS,
    )

    url: str
    table: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    driver: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def calls_function(self, mode: str) -> bool:
        return True

    def stream(self, rows: DataFrame, mode: str, around: Surroundings) -> DataStreamWriter:
        return rows.writeStream.foreachBatch(lambda batch, batch_id: self.save(batch, around))

    def save(self, rows: DataFrame, around: Surroundings) -> None:
        options = _given(
            url=self.url, user=self.user, password=self.password, driver=self.driver, dbtable=self.table
        )
        rows.write.format("jdbc").options(**options, **self.options).mode("append").save()


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
