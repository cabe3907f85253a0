"""The context of a request: its version, its client, and the connection that carried it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ruslo.broker.requests.access import AUTHORIZATION_ERRORS, OPEN, Access, operation_bits
from ruslo.model.acls import CLUSTER_NAME, Operation, ResourceType
from ruslo.model.errors import KafkaError
from ruslo.model.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from ruslo.net.connection import Connection


class RequestContext(NamedTuple):
    api_version: int
    client_id: str | None = None
    listener_name: str = "PLAINTEXT"
    peer_host: str = "127.0.0.1"
    principal: Principal = ANONYMOUS
    forwarded: bool = False
    """Whether a broker forwarded the request to this controller in an Envelope (KIP-590)."""
    connection: Connection | None = None
    """The connection that carried the request; None for a request of this node to itself."""
    access: Access = OPEN
    api_name: str = ""

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        audited: bool = True,
    ) -> bool:
        """Whether the client may perform the operation on the resource.

        ``audited``: False if the client did not name the resource, so that a denial only hides it.
        """
        return self.access.allows(operation, resource_type, name, self.api_name, audited)

    def require(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise KafkaError with the authorization error of the resource unless the client may do it."""
        if not self.allows(operation, resource_type, name):
            raise KafkaError(
                AUTHORIZATION_ERRORS[resource_type], denial(self, operation, resource_type, name)
            )

    def authorized_operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        return operation_bits(self.access, resource_type, name)


def cluster_operations(context: RequestContext) -> int:
    """The authorized operations on the cluster; none for a client that may not describe it."""
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return context.authorized_operations(ResourceType.CLUSTER)


def denial(context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> str:
    """What is denied, and the command that allows it."""
    kind = resource_type.name.lower().replace("_", " ")
    on_cluster = resource_type is ResourceType.CLUSTER
    resource = "the cluster" if on_cluster else f"{kind} {name}"
    option = "--cluster" if on_cluster else f"--{kind.replace(' ', '-')} {name}"
    return (
        f"{context.principal} may not {operation.name} {resource}. An administrator can allow it: ruslo acl "
        f"create --allow {context.principal} --operation {operation.name} {option}"
    )
