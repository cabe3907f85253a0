"""The ids in a log line, the same in text and JSON format. The node id is in every line.

============================  ====================================================
``connection``                 ``host:port`` of the client
``client_id``                  client id of the request
``correlation_id``             correlation id of the request
``partition``                  ``topic-partition``
============================  ====================================================
"""

from __future__ import annotations

from typing import Final

IDS: Final = "ids"
"""The attribute of a log record that has the ids."""


_CONTROL_CHARACTERS: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def one_line(text: str) -> str:
    """A text that a client has chosen, without line ends and other control characters."""
    return text.translate(_CONTROL_CHARACTERS)


def log_ids(**ids: object) -> dict[str, dict[str, object]]:
    """The ``extra`` argument of a logging call; ids that are None are left out."""
    return {IDS: {name: value for name, value in ids.items() if value is not None}}
