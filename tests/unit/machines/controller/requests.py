"""Requests that several tests of the controller send."""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.machines.controller.config_image import TOPIC
from ruslo.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.machines.controller_bench import MachineBench


def topic(
    name: str = "t",
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: Mapping[int, list[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def assigned(
    assignments: Mapping[int, list[int]], name: str = "t", configs: Mapping[str, str | None] | None = None
) -> CreatableTopic:
    return topic(name, -1, -1, assignments=assignments, configs=configs)


def create_topic(bench: MachineBench, partitions: int = 1, replicas: int = 1) -> None:
    """Create topic t; the controller assigns its replicas."""
    bench.submit(CreateTopicsRequest(topics=[topic(partitions=partitions, replicas=replicas)]))


def assign_topic(
    bench: MachineBench, *replicas: list[int], configs: Mapping[str, str | None] | None = None
) -> None:
    """Create topic t with one partition for each of these replica lists."""
    bench.submit(CreateTopicsRequest(topics=[assigned(dict(enumerate(replicas)), configs=configs)]))


def alter_topic(bench: MachineBench, key: str, value: str) -> None:
    """Set a config of topic t."""
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change])
    bench.submit(IncrementalAlterConfigsRequest(resources=[resource]))
