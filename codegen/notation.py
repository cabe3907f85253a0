"""Reads the schema tables of ``src/ruslo/protocol/schema``.

The notation is described in the README of that folder. The generator and the tests use what is parsed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

SCHEMA_DIR = Path(__file__).resolve().parent.parent / "src" / "ruslo" / "protocol" / "schema"

NEVER = 32767
"""A version above all others: the end of "A+", and the first flexible version if no version is flexible."""

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
VARIABLE_TYPES = frozenset({"string", "bytes", "records"})
KINDS = frozenset(
    {
        "request",
        "response",
        "header",
        "data",
        "metadata",
        "remote-metadata",
        "coordinator-key",
        "coordinator-value",
    }
)


class SchemaError(Exception):
    """A schema table is invalid; the message names the file and the line."""


class Versions(NamedTuple):
    """A closed range of versions; empty when ``low > high``."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def within(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    @property
    def empty(self) -> bool:
        return self.low > self.high


NO_VERSIONS = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    if text == "none":
        return NO_VERSIONS
    match = re.fullmatch(r"(\d+)(?:-(\d+)|(\+))?", text)
    if match is None:
        raise SchemaError(f"{text!r} is not a version range; write A, A-B, A+ or none")
    low = int(match[1])
    if match[3]:
        return Versions(low, NEVER)
    return Versions(low, int(match[2]) if match[2] else low)


def snake_case(name: str) -> str:
    words = re.findall(r"[A-Z]+(?![a-z0-9])|[A-Z]?[a-z0-9]+", name.replace("KRaft", "Kraft"))
    return "_".join(words).lower()


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tag: int | None = None
    default: str | None = None
    map_key: bool = False
    ignorable: bool = False
    compact: bool = True
    entity: str | None = None

    @property
    def attribute(self) -> str:
        return snake_case(self.name)

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        """The type itself, or the type of the array elements."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether the field is a struct, not an array of structs."""
        return not self.is_array and self.struct is not None

    @property
    def struct(self) -> str | None:
        """Name of the struct of the field or of its elements."""
        element = self.element
        return None if element in FIXED_FORMATS or element in VARIABLE_TYPES else element


@dataclass
class StructSpec:
    name: str
    fields: list[Field] = field(default_factory=list)
    possible: Versions = NO_VERSIONS
    """Versions of the message that can have the struct."""


@dataclass
class MessageSpec:
    table: str
    """Name of the schema table, without the suffix."""
    kind: str
    name: str
    key: int
    versions: Versions
    flexible_from: int
    listeners: tuple[str, ...] = ()
    latest_unstable: bool = False
    forwardable: bool = False
    cluster_action: bool = False
    fields: list[Field] = field(default_factory=list)
    structs: dict[str, StructSpec] = field(default_factory=dict)

    @property
    def module(self) -> str:
        return snake_case(self.name)

    @property
    def root(self) -> StructSpec:
        return StructSpec(self.name, self.fields, self.versions)

    def all_structs(self) -> list[StructSpec]:
        """The message itself, then its structs in the order of declaration."""
        return [self.root, *self.structs.values()]


def load_messages(directory: Path = SCHEMA_DIR) -> list[MessageSpec]:
    """All messages of all tables, sorted by name."""
    messages = [message for path in sorted(directory.glob("*.schema")) for message in parse_table(path)]
    messages.sort(key=lambda message: message.name)
    for first, second in pairwise(messages):
        if first.name == second.name:
            raise SchemaError(f"message {first.name} is declared twice")
    return messages


def parse_table(path: Path) -> Iterator[MessageSpec]:
    block: list[tuple[int, str]] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate([*lines, "end"], start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" ") and block:
            yield _parse_message(path, block)
            block = []
        block.append((number, line))


def _parse_message(path: Path, block: list[tuple[int, str]]) -> MessageSpec:
    number, head = block[0]
    try:
        message = _parse_head(path.stem, head)
        # The field list at each depth; a struct opens a deeper one.
        open_lists: list[list[Field]] = [message.fields]
        struct_above: str | None = None
        for number, line in block[1:]:  # noqa: B007
            indent = len(line) - len(line.lstrip())
            depth, remainder = divmod(indent, 4)
            words = line.split()
            if remainder or depth < 1 or depth > len(open_lists) + 1:
                raise SchemaError("wrong indentation; each level is four spaces")
            if depth > len(open_lists):
                if struct_above is None:
                    raise SchemaError("only a struct may have fields below it")
                open_lists.append(_declare(message, struct_above).fields)
            del open_lists[depth:]
            if words[0] == "struct":
                struct_above = words[1]
                continue
            row = _parse_field(words)
            open_lists[-1].append(row)
            struct_above = row.struct
        _set_struct_versions(message)
    except (SchemaError, ValueError, IndexError) as error:
        raise SchemaError(f"{path.name}:{number}: {error}") from error
    return message


def _declare(message: MessageSpec, name: str) -> StructSpec:
    if name in message.structs or name == message.name:
        raise SchemaError(f"struct {name} is declared twice")
    message.structs[name] = StructSpec(name)
    return message.structs[name]


def _parse_head(table: str, line: str) -> MessageSpec:
    kind, name, *rest = line.split()
    if kind not in KINDS:
        raise SchemaError(f"unknown kind of message {kind!r}")
    options, flags = _parse_options(rest, {"key", "versions", "flexible", "listeners"})
    unknown = flags - {"latest-unstable", "forwardable", "cluster-action"}
    if unknown:
        raise SchemaError(f"unknown flags {sorted(unknown)}")
    flexible = parse_versions(options["flexible"])
    return MessageSpec(
        table=table,
        kind=kind,
        name=name,
        key=int(options.get("key", "-1")),
        versions=parse_versions(options["versions"]),
        flexible_from=NEVER if flexible.empty else flexible.low,
        listeners=tuple(options["listeners"].split(",")) if "listeners" in options else (),
        latest_unstable="latest-unstable" in flags,
        forwardable="forwardable" in flags,
        cluster_action="cluster-action" in flags,
    )


def _parse_field(words: list[str]) -> Field:
    name, type_, versions, *rest = words
    options, flags = _parse_options(rest, {"nullable", "tag", "default", "entity"})
    unknown = flags - {"map-key", "ignorable", "not-compact"}
    if unknown:
        raise SchemaError(f"unknown flags {sorted(unknown)}")
    return Field(
        name=name,
        type=type_,
        versions=parse_versions(versions),
        nullable=parse_versions(options.get("nullable", "none")),
        tag=int(options["tag"]) if "tag" in options else None,
        default=options.get("default"),
        map_key="map-key" in flags,
        ignorable="ignorable" in flags,
        compact="not-compact" not in flags,
        entity=options.get("entity"),
    )


def _parse_options(words: list[str], known: set[str]) -> tuple[dict[str, str], set[str]]:
    options: dict[str, str] = {}
    flags: set[str] = set()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            flags.add(word)
        elif key in known and key not in options:
            options[key] = value
        else:
            raise SchemaError(f"unknown or repeated option {word!r}")
    return options, flags


def _set_struct_versions(message: MessageSpec) -> None:
    """Find the versions that can have each struct, and check what the generator relies on."""

    def visit(fields: list[Field], possible: Versions) -> None:
        seen: set[str] = set()
        for row in fields:
            if row.attribute in seen:
                raise SchemaError(f"field {row.name} is declared twice")
            seen.add(row.attribute)
            present = row.versions.within(possible)
            if row.tag is not None and not present.empty and present.low < message.flexible_from:
                raise SchemaError(f"tagged field {row.name} exists in a version that is not flexible")
            if row.struct is not None:
                if row.struct not in message.structs:
                    raise SchemaError(f"{row.struct} is neither a type nor a struct of {message.name}")
                struct = message.structs[row.struct]
                wider = present if struct.possible.empty else _hull(struct.possible, present)
                if not present.empty and wider != struct.possible:
                    struct.possible = wider
                visit(struct.fields, present)

    visit(message.fields, message.versions)


def _hull(first: Versions, second: Versions) -> Versions:
    return Versions(min(first.low, second.low), max(first.high, second.high))
