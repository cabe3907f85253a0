"""What the principal of a request may do."""

from __future__ import annotations

from typing import Final, Protocol

from ruslo.model.acls import CLUSTER_NAME, OPERATIONS, Operation, ResourceType
from ruslo.model.errors import ErrorCode

NOT_REQUESTED: Final = -(2**31)
"""The value in a response whose request did not ask for authorized operations."""

AUTHORIZATION_ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class Access(Protocol):
    """The permissions of one principal from one host."""

    readable: set[str | bytes]
    """Names and ids of topics that the principal may read, as far as it has read them already. Fetch looks
    here first."""
    writable: set[str | bytes]
    """The same for topics that it may write to, and Produce."""

    def allows(
        self, operation: Operation, resource_type: ResourceType, name: str, api: str, audited: bool = True
    ) -> bool:
        """``audited``: the client asks for the resource by name, so the audit log contains a denial."""
        ...

    def allows_any(self, operation: Operation, resource_type: ResourceType, api: str) -> bool:
        """Whether the operation is allowed on at least one resource of the type."""
        ...


class OpenAccess:
    """The node has no authorizer: everything is allowed."""

    __slots__ = ("readable", "writable")

    def __init__(self) -> None:
        self.readable: set[str | bytes] = set()
        self.writable: set[str | bytes] = set()

    def allows(
        self, operation: Operation, resource_type: ResourceType, name: str, api: str, audited: bool = True
    ) -> bool:
        return True

    def allows_any(self, operation: Operation, resource_type: ResourceType, api: str) -> bool:
        return True


class NoAccess(OpenAccess):
    """Nothing is allowed."""

    def allows(
        self, operation: Operation, resource_type: ResourceType, name: str, api: str, audited: bool = True
    ) -> bool:
        return False

    def allows_any(self, operation: Operation, resource_type: ResourceType, api: str) -> bool:
        return False


OPEN: Final = OpenAccess()
NO_ACCESS: Final = NoAccess()


def operation_bits(access: Access, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
    """The operations that are allowed on a resource, as the bit field of responses (KIP-430)."""
    if access is OPEN:
        return _ALL_BITS[resource_type]
    return sum(
        1 << operation
        for operation in OPERATIONS[resource_type]
        if access.allows(operation, resource_type, name, "", audited=False)
    )


_ALL_BITS: Final = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in OPERATIONS.items()
}
