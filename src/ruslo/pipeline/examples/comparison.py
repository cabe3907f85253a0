"""Compares the rows of a view with the expected rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ruslo.pipeline.files.model import Row
from ruslo.pipeline.suggestions import nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Comparison:
    """``missing`` rows were expected but not produced; ``surplus`` rows were produced but not expected."""

    view: str
    expected: int
    came: int
    missing: Sequence[str]
    surplus: Sequence[str]
    problem: str | None = None

    @property
    def is_equal(self) -> bool:
        return self.problem is None and not self.missing and not self.surplus

    def as_json(self) -> dict[str, object]:
        return {
            "view": self.view,
            "equal": self.is_equal,
            "expected": self.expected,
            "came": self.came,
            "missing": [json.loads(row) for row in self.missing],
            "surplus": [json.loads(row) for row in self.surplus],
            "problem": self.problem,
        }

    def lines(self) -> list[str]:
        """The differences as lines for a terminal."""
        if self.problem is not None:
            return [f"{self.view}: {self.problem}"]
        equal = self.expected - len(self.missing)
        return [
            f"{self.view}: {equal} of {self.expected} expected rows were produced",
            *(f"  - {row}   expected, but missing" for row in self.missing),
            *(f"  + {row}   not expected" for row in self.surplus),
        ]


def compare(
    spark: SparkSession, view: str, came: DataFrame, expected: Sequence[Row], *, ordered: bool
) -> Comparison:
    """Columns that no expected row names are ignored. Expected values are parsed with the view's types."""
    columns = list(dict.fromkeys(column for row in expected for column in row))
    unknown = [column for column in columns if column not in came.columns]
    if unknown:
        hint = nearest(unknown[0], came.columns)
        return Comparison(view, len(expected), 0, (), (), f"unknown column {unknown[0]!r}. {hint}")
    chosen = came.select(*(f"`{column}`" for column in columns)) if columns else came
    rows = [_text(row.asDict(recursive=True)) for row in chosen.collect()]
    wanted, problem = _as_view(spark, chosen, expected)
    if problem is not None:
        return Comparison(view, len(expected), len(rows), (), (), problem)
    if ordered and rows != wanted and Counter(rows) == Counter(wanted):
        return Comparison(view, len(wanted), len(rows), (), (), "the rows are in another order")
    missing, surplus = Counter(wanted) - Counter(rows), Counter(rows) - Counter(wanted)
    return Comparison(view, len(wanted), len(rows), sorted(missing.elements()), sorted(surplus.elements()))


def _as_view(spark: SparkSession, chosen: DataFrame, expected: Sequence[Row]) -> tuple[list[str], str | None]:
    from pyspark.errors import PySparkException

    if not expected:
        return [], None
    try:
        rows = typed_rows(spark, chosen.schema.simpleString(), expected).collect()
    except PySparkException as error:
        columns, reason = chosen.schema.simpleString(), str(error).partition("\n")[0]
        return [], f"the expected rows do not fit the view's columns ({columns}): {reason}"
    return [_text(row.asDict(recursive=True)) for row in rows], None


def typed_rows(spark: SparkSession, schema: str, rows: Sequence[Row]) -> DataFrame:
    """Rows of a file as a DataFrame with a schema; fails for values that do not match it."""
    from pyspark.sql import functions as F

    texts = spark.createDataFrame([(as_json(row),) for row in rows], "json STRING")
    return texts.select(F.from_json("json", schema, {"mode": "FAILFAST"}).alias("row")).select("row.*")


def as_json(row: Mapping[str, object]) -> str:
    return json.dumps(row, default=str)


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps({key: _plain(value) for key, value in row.items()}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value whose JSON is the same for equal values."""
    if isinstance(value, float):
        # The last digits of floating-point sums depend on the order of addition.
        return float(f"{value:.12g}")
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
