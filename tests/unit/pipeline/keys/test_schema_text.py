from __future__ import annotations

import pytest

from ruslo.pipeline.keys.schema_text import Array, Map, SchemaProblem, Struct, parse_schema


def test_spark_types() -> None:
    schema = parse_schema(
        "id BIGINT NOT NULL COMMENT 'the key', `a name` string, price DECIMAL(10, 2), tags ARRAY<STRING>, "
        "more MAP<STRING, INT>, location STRUCT<lat: DOUBLE, lon: DOUBLE, names: ARRAY<STRUCT<n: STRING>>>"
    )
    assert schema == Struct(
        {
            "id": "bigint",
            "a name": "string",
            "price": "decimal",
            "tags": Array("string"),
            "more": Map("int"),
            "location": Struct({"lat": "double", "lon": "double", "names": Array(Struct({"n": "string"}))}),
        }
    )


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("id BIGINTT", "unknown type 'BIGINTT'", 4),
        ("id", "unknown type 'the end'", 3),
        ("id INT name STRING", "unexpected 'name'", 8),
        ("id INT,", "name is missing before 'the end'", 8),
        ("id INT, ID STRING", "duplicate column 'ID'", 9),
        ("tags ARRAY<STRING", "'>' is missing before 'the end'", 18),
        ("m MAP<STRING>", "',' is missing before '>'", 13),
        ("price DECIMAL(x)", "invalid number of digits 'x'", 15),
        ("id INT; drop", "unexpected character ';'", 7),
    ],
)
def test_errors_have_a_column(text: str, message: str, column: int) -> None:
    with pytest.raises(SchemaProblem, match=message) as caught:
        parse_schema(text)
    assert caught.value.column == column


def test_a_misspelt_type_has_a_suggestion() -> None:
    with pytest.raises(SchemaProblem) as caught:
        parse_schema("at TIMESTAMPP")
    assert caught.value.fix == "Did you mean 'timestamp'?"
