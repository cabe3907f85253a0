"""Decides which messages get a module: those that the code of Ruslo uses.

* A message whose module is imported anywhere in ``src`` outside ``protocol/messages``.
* The other half of its pair: a request has a response, a coordinator key has a value.
* Every metadata record, because the metadata log names records by type.

The schema tables hold the other messages as well. Import one of them and generate again to get its module.
"""

from __future__ import annotations

import re
from pathlib import Path

from codegen.notation import MessageSpec

SOURCE_DIR = Path(__file__).resolve().parent.parent / "src" / "ruslo"

_IMPORTS = re.compile(r"ruslo\.protocol\.messages(?:\.(\w+)| import (\([^)]*\)|.*))")
_PAIR_SUFFIX = re.compile("(Request|Response|Key|Value)$")


def used_messages(messages: list[MessageSpec]) -> list[MessageSpec]:
    imported = _imported_modules()
    pairs = {_pair_name(message) for message in messages if message.module in imported}
    return [message for message in messages if message.kind == "metadata" or _pair_name(message) in pairs]


def _pair_name(message: MessageSpec) -> str:
    return _PAIR_SUFFIX.sub("", message.name)


def _imported_modules() -> set[str]:
    names: set[str] = set()
    for path in SOURCE_DIR.rglob("*.py"):
        if path.parent.name != "messages":
            for found in _IMPORTS.finditer(path.read_text(encoding="utf-8")):
                names.update(re.findall(r"\w+", found[1] or found[2]))
    return names
