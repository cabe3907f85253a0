from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ruslo.model.errors import ConfigError
from ruslo.pipeline.sink.schema import check_schema

NAME_AND_BYTES = StructType().add("key", StringType()).add("value", BinaryType())


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    "columns",
    [
        {"value": StringType()},
        {"value": BinaryType(), "key": NullType()},
        {"key": StringType(), "value": BinaryType(), "headers": ArrayType(NAME_AND_BYTES)},
        # Columns of the source, which a copy may hand on as they are.
        {"value": BinaryType(), "topic": StringType(), "partition": IntegerType(), "offset": LongType()},
        {"value": BinaryType(), "timestamp": TimestampType(), "timestampType": IntegerType()},
        {"value": StringType(), "timestamp": TimestampNTZType()},
    ],
)
def test_these_rows_are_records(columns: dict[str, DataType]) -> None:
    check_schema(schema(**columns), has_topic_option=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": StringType()}, "no column 'value' to write .columns: key."),
        ({"value": IntegerType()}, "column 'value' is int, it must be binary or string"),
        ({"value": StringType(), "key": LongType()}, "column 'key' is bigint"),
        ({"value": StringType(), "partition": LongType()}, "column 'partition' is bigint, it must be int"),
        ({"value": StringType(), "headers": NAME_AND_BYTES}, "column 'headers' is struct"),
        ({"value": StringType(), "timestamp": StringType()}, "column 'timestamp' is string"),
    ],
)
def test_these_are_refused_with_the_way_out(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_schema(schema(**columns), has_topic_option=True)


def test_a_topic_must_come_from_somewhere() -> None:
    check_schema(schema(value=StringType(), topic=StringType()), has_topic_option=False)
    with pytest.raises(ConfigError, match="set option 'topic', or add a column 'topic'"):
        check_schema(schema(value=StringType()), has_topic_option=False)
