"""Plain values as YAML, for ``-o yaml``.

Whatever might be read as something else (``no``, ``1e3``, a date) is written in quotes. Results of commands
need no more, and a library costs 40 ms to import.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

# Beginning with a letter and free of what YAML gives a meaning: such text stands for itself.
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
    # 1e+16 has no dot, and so is a word for YAML 1.1.
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    # JSON's escapes for what is beyond 16 bits are two, which YAML does not join.
    return character if character.isprintable() else f"\\U{ord(character):08x}"
