"""The broker that Metadata responses name as the controller."""

from __future__ import annotations

from ruslo.broker.metadata.loader import MetadataLoader


def controller_id(metadata: MetadataLoader, own_id: int) -> int:
    """This broker if it is unfenced, else another live one: each forwards requests to the controller
    (KIP-590).

    The client has just reached this broker, whereas the active controller may have died a moment ago: a
    client that is sent there (seen with librdkafka's admin client) retries it and no other broker.
    """
    live = [broker.id for broker in metadata.image.cluster.brokers.values() if not broker.fenced]
    return own_id if own_id in live else min(live, default=-1)
