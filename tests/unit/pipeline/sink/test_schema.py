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
        # Columns of the source, which a copy passes on unchanged.
        {"value": BinaryType(), "topic": StringType(), "partition": IntegerType(), "offset": LongType()},
        {"value": BinaryType(), "timestamp": TimestampType(), "timestampType": IntegerType()},
        {"value": StringType(), "timestamp": TimestampNTZType()},
    ],
)
def test_valid_schemas(columns: dict[str, DataType]) -> None:
    check_schema(schema(**columns), has_topic_option=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": StringType()}, "the column 'value' is missing .columns: key."),
        ({"value": IntegerType()}, "column 'value' is int but must be binary or string"),
        ({"value": StringType(), "key": LongType()}, "column 'key' is bigint"),
        ({"value": StringType(), "partition": LongType()}, "column 'partition' is bigint but must be int"),
        ({"value": StringType(), "headers": NAME_AND_BYTES}, "column 'headers' is struct"),
        ({"value": StringType(), "timestamp": StringType()}, "column 'timestamp' is string"),
    ],
)
def test_invalid_schemas_are_rejected_with_a_fix(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_schema(schema(**columns), has_topic_option=True)


def test_a_topic_option_or_column_is_required() -> None:
    check_schema(schema(value=StringType(), topic=StringType()), has_topic_option=False)
    with pytest.raises(ConfigError, match="set option 'topic', or add a column 'topic'"):
        check_schema(schema(value=StringType()), has_topic_option=False)
