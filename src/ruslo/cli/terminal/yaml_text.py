"""Writes results as YAML, for ``-o yaml``.

Strings that YAML would read as another type (``no``, ``1e3``, a date) are quoted. A YAML library would do the
same, but takes 40 ms to import.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

# Strings that need no quotes.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def to_yaml(value: object) -> str:
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(str(key))}:", item, indent="  ")
    elif isinstance(value, list | tuple) and value:
        for item in value:
            nested = list(_lines(item))
            yield f"- {nested[0]}"
            yield from (f"  {line}" for line in nested[1:])
    else:
        yield _scalar(value)


def _entry(head: str, item: object, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping | list | tuple) and item:
        yield head
        yield from (f"{indent}{line}" for line in _lines(item))
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if isinstance(value, str):
        return '"' + "".join(map(_character, value)) + '"'
    text = json.dumps(value)
    # YAML 1.1 reads 1e+16, which has no dot, as a string.
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    # YAML does not join the two JSON escapes of a character beyond 16 bits.
    return character if character.isprintable() else f"\\U{ord(character):08x}"
