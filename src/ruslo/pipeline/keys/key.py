"""The keys of a mapping in a pipeline file: declared once, for reading, lint and the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.located import Located, kind_of
from ruslo.pipeline.suggestions import nearest


class Unreadable(Exception):
    """A value does not have the type of its key."""

    def __init__(self, rule: str, message: str, fix: str = "", location: Location | None = None) -> None:
        super().__init__(message)
        self.rule, self.message, self.fix, self.location = rule, message, fix, location


class Reported(Exception):
    """The errors of a mapping are among the findings; ``values`` are those of the valid keys."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.values = dict(values or {})


class ValueType(Protocol):
    """``read`` converts a located value to a plain one, or raises Unreadable or Reported."""

    @property
    def description(self) -> str:
        """The description in the reference."""

    def read(self, value: Located, findings: Findings) -> Any: ...


def read_list(root: Located, key: str, findings: Findings) -> list[Located]:
    """The items of a list of named mappings; empty if the key is missing or has another type."""
    assert isinstance(root.value, dict), "the pipeline is a mapping"
    node = root.value.get(key)
    if node is None:
        return []
    if isinstance(node.value, list):
        return node.value
    message = f"{key!r} must be a list, not {kind_of(node.value)}"
    findings.error(node.location, "wrong-type", message, "Start each item with '- name:'.")
    return []


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    type: ValueType
    doc: str
    required: bool = False
    default: Any = None


def read_keys(
    node: Located, keys: Sequence[Key], findings: Findings, what: str, *, besides: Sequence[str] = ()
) -> dict[str, Any]:
    """The values of a mapping by key, with defaults. Reports every error, then raises Reported.

    ``besides`` are keys that the caller reads.
    """
    if not isinstance(node.value, dict):
        found = kind_of(node.value)
        findings.error(
            node.location, "wrong-type", f"{what} must be a mapping, not {found}", "Write 'key: value'."
        )
        raise Reported
    known = {key.name: key for key in keys}
    values: dict[str, Any] = {key.name: key.default for key in keys}
    failed = False
    for name, item in node.value.items():
        if name in besides:
            continue
        if name not in known:
            fix = nearest(name, [*known, *besides])
            findings.error(node.key_location(name), "unknown-key", f"unknown key {name!r} of {what}", fix)
            failed = True
            continue
        try:
            values[name] = known[name].type.read(item, findings)
        except Unreadable as error:
            findings.error(error.location or item.location, error.rule, f"{name}: {error.message}", error.fix)
            failed = True
        except Reported:
            failed = True
    for key in keys:
        if key.required and key.name not in node.value:
            findings.error(
                node.location,
                "missing-key",
                f"{what} needs {key.name!r}",
                f"Add '{key.name}: …' ({key.doc}).",
            )
            failed = True
    if failed:
        raise Reported(values)
    return values
