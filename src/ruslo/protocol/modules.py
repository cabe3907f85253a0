"""Finds a generated message by its name. Its module is imported on first use."""

from __future__ import annotations

import importlib
import re

from ruslo.model.errors import ProtocolError
from ruslo.protocol.message import Message


def module_name(message_name: str) -> str:
    """The module of a message is its name in snake case."""
    words = re.findall(r"[A-Z]+(?![a-z0-9])|[A-Z]?[a-z0-9]+", message_name.replace("KRaft", "Kraft"))
    return "ruslo.protocol.messages." + "_".join(words).lower()


def message_class(message_name: str) -> type[Message]:
    """Raises ProtocolError for a message that is only in the schema tables (see ``codegen/usage.py``)."""
    try:
        module = importlib.import_module(module_name(message_name))
    except ModuleNotFoundError as error:
        raise ProtocolError(f"{message_name} is not supported") from error
    found: type[Message] = getattr(module, message_name)
    return found
