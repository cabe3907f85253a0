"""The columns of a DataFrame that become a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ruslo.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BYTES_OR_TEXT: Final = ("binary", "string")
_TYPES: Final = {
    "topic": ("string",),
    "key": _BYTES_OR_TEXT,
    "value": _BYTES_OR_TEXT,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}
_ALWAYS_NULL: Final = "void"


def check_schema(schema: StructType, *, has_topic_option: bool) -> None:
    """Raise unless rows of this schema can become records. Other columns are ignored, as in Spark's sink."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, allowed in _TYPES.items():
        if types.get(name, _ALWAYS_NULL) not in (*allowed, _ALWAYS_NULL):
            raise ConfigError(
                f"column {name!r} is {types[name]} but must be {' or '.join(allowed)}: "
                f"cast it, or convert it with to_json or struct"
            )
    if "value" not in types:
        columns = ", ".join(types) or "none"
        raise ConfigError(
            f"the column 'value' is missing (columns: {columns}): "
            "select it, for example to_json(struct(*)) AS value"
        )
    if "topic" not in types and not has_topic_option:
        raise ConfigError("the target topic is missing: set option 'topic', or add a column 'topic'")
