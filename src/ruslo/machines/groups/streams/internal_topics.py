"""The CreateTopics request of a group's missing internal topics, which the driver sends for the client."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.configured_topology import InternalTopic, configure
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

DEFAULT_REPLICATION_FACTOR = -1


def missing_internal_topics(shard: ShardState, group_id: str) -> tuple[InternalTopic, ...]:
    """The internal topics that the group waits for."""
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup) or group.topology is None:
        return ()
    try:
        configured = group.configured or configure(group.topology, shard.topics)
    except KafkaError:
        return ()
    return tuple(topic for topic in configured.missing if shard.topics.by_name(topic.name) is None)


def creatable_topics(topics: Iterable[InternalTopic]) -> list[CreatableTopic]:
    return [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partition_count,
            replication_factor=topic.replication_factor or DEFAULT_REPLICATION_FACTOR,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
        )
        for topic in topics
    ]
