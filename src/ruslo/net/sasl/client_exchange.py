"""How a channel authenticates to a broker: the mechanism, and the objects that carry it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ruslo.net.sasl.mechanism import ClientMechanism


class ClientLogin(NamedTuple):
    """``sasl.mechanism`` with its credentials."""

    mechanism: str
    new: Callable[[str], ClientMechanism]
    """Makes the mechanism object of one connection to this host. It may block: it runs in a thread."""
    blocking: bool = False
    """Whether ``new`` and ``respond`` may block: they fetch tokens, read files or compute a while."""
