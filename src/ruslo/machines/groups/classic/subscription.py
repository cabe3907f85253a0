"""Reads the topics of ``consumer`` subscriptions, the only metadata of members that a coordinator reads."""

from __future__ import annotations

from struct import Struct, error

from ruslo.model.errors import ProtocolError
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION = Struct(">h")


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics of a ``consumer`` subscription of any version; None if it is invalid.

    Later versions only add fields after those of version 0, so only that prefix is read.
    """
    try:
        (version,) = _VERSION.unpack_from(metadata)
        if version < 0:
            return None
        return ConsumerProtocolSubscription.read(metadata, _VERSION.size, 0)[0].topics
    except (error, ProtocolError):
        return None
