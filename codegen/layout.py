"""Properties of fields that the generator needs."""

from __future__ import annotations

from codegen.notation import FIXED_FORMATS, FIXED_SIZES, Field, MessageSpec, StructSpec, Versions

ATTRIBUTE_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes | bytearray | memoryview",
}


def condition(present: Versions, possible: Versions) -> str:
    """The test for versions in ``present``, given one in ``possible``; empty when it is always true."""
    from_start = present.low <= possible.low
    to_end = present.high >= possible.high
    if from_start and to_end:
        return ""
    if from_start:
        return f"version <= {present.high}"
    if to_end:
        return f"version >= {present.low}"
    if present.low == present.high:
        return f"version == {present.low}"
    return f"{present.low} <= version <= {present.high}"


def absence(present: Versions, possible: Versions) -> str:
    """The negation of ``condition``; empty when all versions are present."""
    test = condition(present, possible)
    if test.startswith("version <= "):
        return f"version > {present.high}"
    if test.startswith("version >= "):
        return f"version < {present.low}"
    return f"not {test}" if test else ""


def present_fields(struct: StructSpec) -> list[Field]:
    """The fields that any version of the message has."""
    return [field for field in struct.fields if not field.versions.within(struct.possible).empty]


def ever_nullable(field: Field, possible: Versions) -> bool:
    return not field.nullable.within(field.versions).within(possible).empty


def null_by_default(field: Field) -> bool:
    return field.default == "null"


def attribute_type(field: Field, possible: Versions) -> str:
    element = field.struct or ATTRIBUTE_TYPES.get(field.element, "int")
    text = f"list[{element}]" if field.is_array else element
    return f"{text} | None" if ever_nullable(field, possible) else text


def default_value(field: Field, possible: Versions) -> str:
    """The default as a Python expression, which creates a list or struct if it is one."""
    if null_by_default(field) or (field.type == "records" and ever_nullable(field, possible)):
        return "None"
    if field.is_array:
        return "[]"
    if field.is_struct:
        return f"{field.struct}()"
    match field.type:
        case "bool":
            return "True" if field.default == "true" else "False"
        case "float64":
            return repr(float(field.default or 0))
        case "uuid":
            return "ZERO_UUID"
        case "string":
            return repr(field.default or "").replace("'", '"')
        case "bytes" | "records":
            return 'b""'
        case _:
            return field.default or "0"


def is_not_default(field: Field, possible: Versions) -> str:
    """The test whether the attribute differs from its default."""
    value = f"self.{field.attribute}"
    default = default_value(field, possible)
    if default == "None":
        return f"{value} is not None"
    if default == "False" or (default == "[]" and not ever_nullable(field, possible)):
        return value
    if default == "True":
        return f"not {value}"
    return f"{value} != {default}"


def smallest_element(message: MessageSpec, field: Field) -> int:
    """The minimum size of an array element, over all versions that have the array."""
    if field.struct is None:
        return FIXED_SIZES.get(field.element, 1)
    struct = message.structs[field.struct]
    possible = field.versions.within(struct.possible)
    return min(
        _smallest_struct(message, struct, version) for version in range(possible.low, possible.high + 1)
    )


def _smallest_struct(message: MessageSpec, struct: StructSpec, version: int) -> int:
    flexible = version >= message.flexible_from
    size = 1 if flexible else 0
    for field in struct.fields:
        if version not in field.versions or field.tag is not None:
            continue
        if field.is_struct:
            nullable = version in field.nullable
            size += 1 if nullable else _smallest_struct(message, message.structs[field.element], version)
        elif not field.is_array and field.type in FIXED_FORMATS:
            size += FIXED_SIZES[field.type]
        elif flexible and field.compact:
            size += 1
        else:
            size += 2 if field.type == "string" else 4
    return size


def is_fixed(field: Field) -> bool:
    return field.type in FIXED_FORMATS
