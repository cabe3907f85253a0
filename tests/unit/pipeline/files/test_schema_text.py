from __future__ import annotations

import pytest

from ruslo.pipeline.files.schema_text import Array, Map, SchemaProblem, Struct, parse_schema


def test_types_as_spark_writes_them() -> None:
    schema = parse_schema(
        "id BIGINT NOT NULL COMMENT 'the key', `a name` string, price DECIMAL(10, 2), tags ARRAY<STRING>, "
        "more MAP<STRING, INT>, place STRUCT<lat: DOUBLE, lon: DOUBLE, names: ARRAY<STRUCT<n: STRING>>>"
    )
    assert schema == Struct(
        {
            "id": "bigint",
            "a name": "string",
            "price": "decimal",
            "tags": Array("string"),
            "more": Map("int"),
            "place": Struct({"lat": "double", "lon": "double", "names": Array(Struct({"n": "string"}))}),
        }
    )


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("id BIGINTT", "'BIGINTT' is no type", 4),
        ("id", "'the end' is no type", 3),
        ("id INT name STRING", "'name' is not expected here", 8),
        ("id INT,", "name is missing before 'the end'", 8),
        ("id INT, ID STRING", "'ID' is there twice", 9),
        ("tags ARRAY<STRING", "'>' is missing before 'the end'", 18),
        ("m MAP<STRING>", "',' is missing before '>'", 13),
        ("price DECIMAL(x)", "'x' is no number", 15),
        ("id INT; drop", "';' has no place", 7),
    ],
)
def test_mistakes_have_a_place(text: str, message: str, column: int) -> None:
    with pytest.raises(SchemaProblem, match=message) as caught:
        parse_schema(text)
    assert caught.value.column == column


def test_a_misspelt_type_has_a_suggestion() -> None:
    with pytest.raises(SchemaProblem) as caught:
        parse_schema("at TIMESTAMPP")
    assert caught.value.fix == "Did you mean 'timestamp'?"
