"""For the tests of users and our own: a real broker on demand."""

from __future__ import annotations

from ruslo.testing.embedded import BrokerFailed, EmbeddedBroker

__all__ = ["BrokerFailed", "EmbeddedBroker"]
