"""Whether a client may read or write a topic that a Produce or Fetch request names, by name or by id.

The two sets of an ``Access`` remember what was allowed, under the key that the request uses. The hot path
looks there first.
"""

from __future__ import annotations

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.requests.access import NO_ACCESS, Access
from ruslo.model.acls import Operation, ResourceType


def may_write(access: Access, topic: str | bytes, metadata: MetadataLoader) -> bool:
    return _allows(access, Operation.WRITE, access.writable, topic, metadata, "Produce")


def may_read(access: Access, topic: str | bytes, metadata: MetadataLoader, api: str = "Fetch") -> bool:
    return _allows(access, Operation.READ, access.readable, topic, metadata, api)


def _allows(
    access: Access,
    operation: Operation,
    granted: set[str | bytes],
    topic: str | bytes,
    metadata: MetadataLoader,
    api: str,
) -> bool:
    """An id that is unknown is allowed: its error says that the topic does not exist.

    Not so with ``NO_ACCESS``, which denies whatever the request names.
    """
    if topic in granted:
        return True
    name = topic if isinstance(topic, str) else metadata.image.topics.name_of(topic)
    if name is None:
        return access is not NO_ACCESS
    if not access.allows(operation, ResourceType.TOPIC, name, api):
        return False
    granted.add(topic)
    return True
