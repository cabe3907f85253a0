"""Whom clients are told to be the controller."""

from __future__ import annotations

from ruslo.broker.metadata.loader import MetadataLoader


def controller_id(metadata: MetadataLoader, own_id: int) -> int:
    """A live broker, since each passes requests on (KIP-590); this one if it may be.

    Whoever asks has just reached it. The active controller may have died a moment ago: a client that is sent
    there (seen with librdkafka's admin client) goes on knocking and asks nobody else.
    """
    live = [broker.id for broker in metadata.image.cluster.brokers.values() if not broker.fenced]
    return own_id if own_id in live else min(live, default=-1)
