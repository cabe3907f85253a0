"""CreateAcls and DeleteAcls: which ACL records are written. ``machines.authorizer`` applies them."""

from __future__ import annotations

from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.security_image import acl_record
from ruslo.machines.controller.state import (
    MAX_RECORDS_PER_REQUEST,
    ControllerState,
    Decision,
    check_record_count,
)
from ruslo.model.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ruslo.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from ruslo.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ruslo.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from ruslo.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord


def create_acls(state: ControllerState, request: CreateAclsRequest) -> Decision[CreateAclsResponse]:
    existing = state.image.security.acl_ids
    created: dict[Acl, None] = {}
    results: list[AclCreationResult] = []
    for creation in request.creations:
        acl = _acl_of(creation)
        problem = _problem(acl)
        if problem is not None:
            results.append(AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=problem))
            continue
        if acl not in existing:
            created[acl] = None
        results.append(AclCreationResult(error_message=None))
    check_record_count(len(created))
    records: list[VersionedRecord] = [(acl_record(state.new_uuid(), acl), 0) for acl in created]
    return records, CreateAclsResponse(results=results)


def _acl_of(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _problem(acl: Acl) -> str | None:
    """Why the ACL is invalid, and the fix; None if it is valid."""
    if ResourceType(acl.resource_type) in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Resource type {acl.resource_type} is not the type of a resource. Use 2 (topic) to 7 (user)"
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "The resource name is empty. Name a resource, or use * for all of them"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Pattern type {acl.pattern_type} is not valid in an ACL. Use 3 (literal) or 4 (prefixed)"
    if Operation(acl.operation) in (Operation.UNKNOWN, Operation.ANY):
        return f"Operation {acl.operation} is not valid in an ACL. Use 2 (all) to 15"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"Permission type {acl.permission} is not valid in an ACL. Use 2 (deny) or 3 (allow)"
    if ":" not in acl.principal:
        return f"{acl.principal!r} is not a principal. Write type:name, such as User:alice"
    return None


def delete_acls(state: ControllerState, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    deleted: dict[bytes, None] = {}
    results: list[DeleteAclsFilterResult] = []
    for each in request.filters:
        wanted = _filter_of(each)
        if wanted.is_unknown:
            results.append(
                DeleteAclsFilterResult(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message="The filter has a value that this node does not know. Use ANY (1) instead",
                )
            )
            continue
        matching = [(acl_id, acl) for acl_id, acl in state.image.security.acls.items() if wanted.matches(acl)]
        deleted.update(dict.fromkeys(acl_id for acl_id, _ in matching))
        if len(deleted) > MAX_RECORDS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The filters match more than {MAX_RECORDS_PER_REQUEST} ACLs. Delete them in several "
                "requests",
            )
        results.append(
            DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(acl) for _, acl in matching])
        )
    records: list[VersionedRecord] = [(RemoveAccessControlEntryRecord(id=acl_id), 0) for acl_id in deleted]
    return records, DeleteAclsResponse(filter_results=results)


def _filter_of(each: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        each.resource_type_filter,
        each.resource_name_filter,
        each.pattern_type_filter,
        each.principal_filter,
        each.host_filter,
        each.operation,
        each.permission_type,
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
