"""What a line in the log is about, beside its words: ids that are the same in text and in JSON.

============================  ====================================================
``connection``                 ``host:port`` of the client's end
``client_id``                  as the client calls itself
``correlation_id``             of the request, as the client numbers them
``partition``                  ``topic-index``
============================  ====================================================

The node's own id stands in every line.
"""

from __future__ import annotations

from typing import Final

IDS: Final = "ids"
"""The attribute of a log record that has them."""


def log_ids(**ids: object) -> dict[str, dict[str, object]]:
    """For the ``extra`` of a call of a logger; ids that are None are left out."""
    return {IDS: {name: value for name, value in ids.items() if value is not None}}
