"""Which resource of the authorizer a config resource belongs to."""

from __future__ import annotations

from ruslo.broker.requests.context import RequestContext
from ruslo.machines.controller.config_image import GROUP, TOPIC
from ruslo.model.acls import CLUSTER_NAME, Operation, ResourceType

_RESOURCES = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP}


def require_config_access(
    context: RequestContext, operation: Operation, resource_type: int, resource_name: str
) -> None:
    """Raise KafkaError unless the client may do this with the configs of a topic, a group or a broker."""
    resource = _RESOURCES.get(resource_type, ResourceType.CLUSTER)
    name = CLUSTER_NAME if resource is ResourceType.CLUSTER else resource_name
    context.require(operation, resource, name)
