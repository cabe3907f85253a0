"""Finds a generated message by its name, importing its module only then."""

from __future__ import annotations

import importlib
import re

from ruslo.protocol.message import Message


def module_name(message_name: str) -> str:
    """Module that holds a message: its name in snake case."""
    words = re.findall(r"[A-Z]+(?![a-z0-9])|[A-Z]?[a-z0-9]+", message_name.replace("KRaft", "Kraft"))
    return "ruslo.protocol.messages." + "_".join(words).lower()


def message_class(message_name: str) -> type[Message]:
    found: type[Message] = getattr(importlib.import_module(module_name(message_name)), message_name)
    return found
