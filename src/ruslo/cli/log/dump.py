"""``ruslo log dump``: print segments, indexes, snapshots and checkpoints."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.terminal.output import print_json_line
from ruslo.records.record import HEADER_KEY_ERRORS


@click.command(
    epilog=examples(
        "ruslo log dump data/orders-0/00000000000000000000.log",
        "ruslo log dump data/orders-0/*.log --records -o json",
        "ruslo log dump data/__cluster_metadata-0/00000000000000000000.log --records",
        "ruslo log dump data/orders-0/*.index data/orders-0/*.timeindex data/orders-0/*.snapshot",
    )
)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE...",
)
@click.option("-r", "--records", is_flag=True, help="Show the records of each batch.")
@output_option
def dump(files: tuple[Path, ...], records: bool, output: str) -> None:
    """Print the content of FILEs: segments, indexes, producer snapshots, checkpoints.

    Metadata records are printed with their fields. Exit code 1: a file is damaged.
    """
    from ruslo.storage.dump import dump_file

    damaged = []
    for path in files:
        if output == "text" and len(files) > 1:
            click.echo(f"{path}:")
        for row in dump_file(str(path.resolve()), records=records):
            if row.get("valid") is False or row["row"] in ("rest", "unreadable"):
                damaged.append(f"{path}: {_damage(row)}")
            shown = _readable(row, is_metadata=_holds_metadata(path))
            if output == "json":
                print_json_line({"file": str(path), **shown})
            else:
                click.echo(_text_line(shown))
    if damaged:
        raise click.ClickException("; ".join(damaged))


def _damage(row: dict[str, object]) -> str:
    if row["row"] == "rest":
        return f"{row['size']} bytes from position {row['position']} are not a complete batch"
    if row["row"] == "unreadable":
        return f"cannot decode records of the batch at offset {row['base_offset']}: {row['problem']}"
    return f"the batch at offset {row['base_offset']} has a wrong CRC"


def _holds_metadata(path: Path) -> bool:
    from ruslo.model.topics import METADATA_TOPIC

    return path.resolve().parent.name == f"{METADATA_TOPIC}-0" or path.name.endswith(".checkpoint")


def _text_line(row: dict[str, object]) -> str:
    indent = "  " if row["row"] in ("record", "unreadable") else ""
    pairs = (f"{name}={_text(value)}" for name, value in row.items() if name != "row" and value is not None)
    return f"{indent}{row['row']} {' '.join(pairs)}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = str(value)
    return (
        repr(text) if any(character.isspace() or not character.isprintable() for character in text) else text
    )


def _readable(row: dict[str, object], *, is_metadata: bool) -> dict[str, object]:
    """The row with bytes as text (base64 if not UTF-8) and metadata records as their fields."""
    if row["row"] != "record":
        return row
    shown = dict(row)
    key, value = shown.pop("key"), shown.pop("value")
    if "control" in row and isinstance(value, bytes | bytearray | memoryview):
        # The key repeats "control"; the value is a message.
        return shown | {"value_base64": base64.b64encode(value).decode()}
    shown |= _bytes_field("key", key)
    if is_metadata and isinstance(value, bytes | bytearray | memoryview):
        shown |= _metadata_fields(bytes(value))
    else:
        shown |= _bytes_field("value", value)
    shown["headers"] = [
        _bytes_field("name", name.encode(errors=HEADER_KEY_ERRORS)) | _bytes_field("value", data)
        for name, data in _pairs(row["headers"])
    ]
    return shown


def _pairs(headers: object) -> Iterator[tuple[str, object]]:
    assert isinstance(headers, Iterable)
    yield from headers


def _metadata_fields(value: bytes) -> dict[str, object]:
    from ruslo.model.errors import ProtocolError
    from ruslo.protocol.metadata_records import decode_metadata_record

    try:
        record, version = decode_metadata_record(value)
    except ProtocolError as error:
        return {**_bytes_field("value", value), "problem": str(error)}
    return {"type": type(record).__name__, "version": version, "fields": plain(record)}


def plain(value: object) -> object:
    """A message as dicts, lists and scalars. 16 bytes are a UUID, the only bytes in metadata records."""
    from ruslo.model.ids import uuid_to_text
    from ruslo.protocol.message import Struct

    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return uuid_to_text(data) if len(data) == 16 else base64.b64encode(data).decode()
    return value


def _bytes_field(name: str, data: object) -> dict[str, object]:
    if not isinstance(data, bytes | bytearray | memoryview):
        return {name: data}
    raw = bytes(data)
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(raw).decode()}
