from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen.notation import (
    NEVER,
    NO_VERSIONS,
    MessageSpec,
    SchemaError,
    Versions,
    load_messages,
    parse_table,
    parse_versions,
    snake_case,
)

TABLE = """\
# A comment.
request EchoRequest key=7 versions=1-4 flexible=3+ listeners=broker,controller latest-unstable forwardable
    struct Shared 1+
        Id       int32     1+   map-key
    Text         string    1+   nullable=2+ default=null entity=topicName
    Parts        []Part    2-3  ignorable
        Left     Shared    2+
        Rights   []Shared  3+
    Extra        int64     3+   tag=0 default=-1

data Plain versions=0 flexible=none
    Flag         bool      0    default=true
"""


def parse(tmp_path: Path, text: str) -> list[MessageSpec]:
    path = tmp_path / "some.schema"
    path.write_text(text)
    return list(parse_table(path))


def test_a_table(tmp_path: Path) -> None:
    echo, plain = parse(tmp_path, TABLE)
    assert (echo.table, echo.kind, echo.name, echo.key) == ("some", "request", "EchoRequest", 7)
    assert (echo.versions, echo.flexible_from) == (Versions(1, 4), 3)
    assert (echo.listeners, echo.latest_unstable, echo.forwardable, echo.cluster_action) == (
        ("broker", "controller"),
        True,
        True,
        False,
    )
    text, parts, extra = echo.fields
    assert (text.nullable, text.default, text.entity) == (Versions(2, NEVER), "null", "topicName")
    assert (parts.is_array, parts.element, parts.struct, parts.ignorable) == (True, "Part", "Part", True)
    assert (extra.tag, extra.default) == (0, "-1")
    assert echo.structs["Shared"].fields[0].map_key
    assert [field.attribute for field in echo.structs["Part"].fields] == ["left", "rights"]
    assert echo.structs["Part"].possible == Versions(2, 3)
    assert echo.structs["Shared"].possible == Versions(2, 3), "only if a field uses it"
    assert (plain.key, plain.flexible_from, plain.fields[0].default) == (-1, NEVER, "true")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("    Text  string  1+  nulable=1+", "unknown or repeated option 'nulable=1+'"),
        ("    Text  string  1+  ignorible", "unknown flags"),
        ("    Text  string  one", "not a version range"),
        ("    Text  strin   1+", "neither a type nor a struct"),
        ("    Text  string", "not enough values"),
        ("   Text   string  1+", "wrong indentation"),
        ("            Text  string  1+", "wrong indentation"),
        ("    Text  string  1+\n        Below  int8  1+", "only a struct may have fields below it"),
        ("    Text  string  1+\n    Text  string  1+", "declared twice"),
        ("    Late  int8    1+  tag=0", "not flexible"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, line: str, reason: str) -> None:
    head = "request EchoRequest key=7 versions=1-4 flexible=3+\n"
    with pytest.raises(SchemaError, match=r"some\.schema:[23]: .*" + re.escape(reason)):
        parse(tmp_path, head + line + "\n")


def test_unknown_kinds_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="unknown kind of message 'reqest'"):
        parse(tmp_path, "reqest EchoRequest key=7 versions=1 flexible=none\n")


def test_a_message_is_declared_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.schema").write_text("data Plain versions=0 flexible=none\n")
    with pytest.raises(SchemaError, match="Plain is declared twice"):
        load_messages(tmp_path)


def test_versions() -> None:
    assert parse_versions("3") == Versions(3, 3)
    assert parse_versions("3-5") == Versions(3, 5)
    assert parse_versions("3+") == Versions(3, NEVER)
    assert parse_versions("none") == NO_VERSIONS
    assert NO_VERSIONS.empty
    assert 3 in Versions(3, 5)
    assert 6 not in Versions(3, 5)
    assert Versions(0, 9).within(Versions(4, NEVER)) == Versions(4, 9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TimeoutMs", "timeout_ms"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("KRaftVersionFeature", "kraft_version_feature"),
        ("Enable2Pc", "enable2_pc"),
        ("sessionTimeout", "session_timeout"),
    ],
)
def test_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected
