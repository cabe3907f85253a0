"""How outbound connections are encrypted and authenticated."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import NamedTuple

from ruslo.net.sasl.client_exchange import ClientLogin


class ChannelSecurity(NamedTuple):
    context: Callable[[], ssl.SSLContext] | None = None
    """The current TLS context; None: no TLS."""
    login: ClientLogin | None = None
    """None: no SASL."""


UNPROTECTED = ChannelSecurity()
