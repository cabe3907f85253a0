"""The only part of members' bytes that a coordinator ever reads: the topics of type ``consumer``."""

from __future__ import annotations

from struct import Struct, error

from ruslo.model.errors import ProtocolError
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION = Struct(">h")


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Topics of a ``consumer`` subscription, any version; None if these bytes are no such thing.

    Later versions only add fields behind those of version 0, so its prefix is all that is read.
    """
    try:
        (version,) = _VERSION.unpack_from(metadata)
        if version < 0:
            return None
        return ConsumerProtocolSubscription.read(metadata, _VERSION.size, 0)[0].topics
    except (error, ProtocolError):
        return None
