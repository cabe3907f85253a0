"""Access control lists: list, create, delete."""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.client.wire.cluster import Cluster
from ruslo.model.acls import Acl, AclFilter
from ruslo.net.channel import check_code
from ruslo.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ruslo.protocol.messages.create_acls_response import CreateAclsResponse
from ruslo.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ruslo.protocol.messages.delete_acls_response import DeleteAclsResponse
from ruslo.protocol.messages.describe_acls_request import DescribeAclsRequest
from ruslo.protocol.messages.describe_acls_response import DescribeAclsResponse


class Acls:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008
        """The ACLs that match, sorted; raises SECURITY_DISABLED if the cluster has no authorizer."""
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )

        async def attempt() -> list[Acl]:
            response = await self._cluster.any_broker(request, DescribeAclsResponse)
            check_code(response.error_code, response.error_message)
            return sorted(
                Acl(
                    resource.resource_type,
                    resource.resource_name,
                    resource.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
                for resource in response.resources
                for acl in resource.acls
            )

        return await self._cluster.retrying(attempt)

    async def create(self, acls: Sequence[Acl]) -> None:
        """Create all of them; an existing one stays as it is. Raises the error of the first invalid one."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ]
        )

        async def attempt() -> None:
            response = await self._cluster.controller(request, CreateAclsResponse)
            for result in response.results:
                check_code(result.error_code, result.error_message)

        await self._cluster.retrying(attempt)

    async def delete(self, wanted: Sequence[AclFilter]) -> Sequence[Acl]:
        """Delete the ACLs that match any filter; returns them."""
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=each.resource_type,
                    resource_name_filter=each.resource_name,
                    pattern_type_filter=each.pattern_type,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in wanted
            ]
        )

        async def attempt() -> list[Acl]:
            response = await self._cluster.controller(request, DeleteAclsResponse)
            deleted: dict[Acl, None] = {}
            for result in response.filter_results:
                check_code(result.error_code, result.error_message)
                for found in result.matching_acls:
                    check_code(found.error_code, found.error_message)
                    acl = Acl(
                        found.resource_type,
                        found.resource_name,
                        found.pattern_type,
                        found.principal,
                        found.host,
                        found.operation,
                        found.permission_type,
                    )
                    deleted[acl] = None
            return sorted(deleted)

        return await self._cluster.retrying(attempt)
