"""Requests about ACLs, quotas and SCRAM credentials."""

from __future__ import annotations

from typing import Any

import pytest

from ruslo.broker.dispatch.api_table import CONTROLLER_HANDLERS as HANDLERS_OF_CONTROLLER
from ruslo.broker.handlers import (
    alter_client_quotas,
    controller_changes,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
)
from ruslo.broker.security.audit_log import AuditLog
from ruslo.broker.security.authorization import Authorization
from ruslo.machines.authorizer import Authorizer
from ruslo.model.acls import Operation, PatternType, Permission, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.model.scram import ScramMechanism, new_credential, salted_password
from ruslo.model.secret import Secret
from ruslo.protocol.message import Message
from ruslo.protocol.messages import alter_client_quotas_request as alter_quotas
from ruslo.protocol.messages import client_quota_record as quota_record
from ruslo.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ruslo.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ruslo.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ruslo.protocol.messages.describe_acls_request import DescribeAclsRequest
from ruslo.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from ruslo.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ruslo.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ruslo.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from tests.support.brokers.handlers import exchange
from tests.support.machines.controller_bench import AdminNode, admin_node

EXACT, DEFAULT, SPECIFIED = range(3)
# The controller decides requests of many types, so its response has none of its own.
decide: Any = controller_changes.handle
alter_quotas_of_clients: Any = alter_client_quotas.handle
create: Any = create_acls.handle
delete: Any = delete_acls.handle


@pytest.mark.parametrize("version", range(1, 4))
async def test_acls_need_an_authorizer(version: int) -> None:
    async with admin_node() as node:
        described = await exchange(
            describe_acls.handle, node, DescribeAclsRequest(), version, as_response=True
        )
        assert ErrorCode(described.error_code) is ErrorCode.SECURITY_DISABLED
        assert described.error_message
        creations = CreateAclsRequest(creations=[AclCreation(), AclCreation()])
        created = await exchange(create, node, creations, version)
        assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        filters = DeleteAclsRequest(filters=[DeleteAclsFilter(), DeleteAclsFilter()])
        deleted = await exchange(delete, node, filters, version)
        assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2


async def quotas(node: AdminNode, *components: ComponentData, strict: bool = False) -> list[float]:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    response = await exchange(describe_client_quotas.handle, node, request)
    assert response.error_code == 0
    assert response.entries is not None
    return sorted(value.value for entry in response.entries for value in entry.values)


def component(entity_type: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=entity_type, match_type=match_type, match=match)


async def test_client_quotas() -> None:
    async with admin_node() as node:
        assert await quotas(node) == []
        # A metadata log of Apache Kafka may contain such records.
        stored: list[dict[str, str | None]] = [
            {"user": "u"},
            {"user": None},
            {"user": "u", "client-id": "c"},
            {"ip": "::1"},
        ]
        for value, entity in enumerate(stored):
            node.image.replay(
                quota_record.ClientQuotaRecord(
                    entity=[
                        quota_record.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity.items()
                    ],
                    key="producer_byte_rate",
                    value=float(value),
                )
            )
        assert await quotas(node) == [0, 1, 2, 3]
        assert await quotas(node, component("user", EXACT, "u")) == [0, 2]
        assert await quotas(node, component("user", EXACT, "u"), strict=True) == [0]
        assert await quotas(node, component("user", DEFAULT)) == [1]
        assert await quotas(node, component("user", SPECIFIED)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([component("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([component("user", EXACT, "x"), component("user", DEFAULT)], ErrorCode.INVALID_REQUEST),
        ([component("tenant", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([component("user", EXACT)], ErrorCode.INVALID_REQUEST),
        ([component("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([component("user", SPECIFIED, "x")], ErrorCode.INVALID_REQUEST),
        ([component("user", 9)], ErrorCode.INVALID_REQUEST),
        ([component("user", DEFAULT), component("ip", DEFAULT)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_quota_filters_are_rejected(components: list[ComponentData], code: ErrorCode) -> None:
    async with admin_node() as node:
        request = DescribeClientQuotasRequest(components=components)
        response = await exchange(describe_client_quotas.handle, node, request)
        assert (ErrorCode(response.error_code), response.entries) == (code, None)


def quota(key: str, value: float | None) -> alter_quotas.OpData:
    return alter_quotas.OpData(key=key, value=value or 0.0, remove=value is None)


async def alter(
    node: AdminNode, entity: dict[str, str | None], *ops: alter_quotas.OpData, validate_only: bool = False
) -> ErrorCode:
    named = [alter_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    request = alter_quotas.AlterClientQuotasRequest(
        entries=[alter_quotas.EntryData(entity=named, ops=list(ops))], validate_only=validate_only
    )
    (entry,) = (await exchange(alter_quotas_of_clients, node, request)).entries
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == list(entity.items())
    return ErrorCode(entry.error_code)


async def test_quotas_are_set_changed_and_removed() -> None:
    async with admin_node() as node:
        user: dict[str, str | None] = {"user": "u", "client-id": None}
        produce = "producer_byte_rate"
        assert await alter(node, user, quota(produce, 5.0), validate_only=True) is ErrorCode.NONE
        assert await quotas(node) == []
        both = (quota(produce, 5.0), quota("request_percentage", 1.5))
        assert await alter(node, user, *both) is ErrorCode.NONE
        assert await quotas(node) == [1.5, 5]
        offset = node.image.offset
        same = (quota(produce, 5.0), quota("consumer_byte_rate", None))
        assert await alter(node, user, *same) is ErrorCode.NONE
        assert node.image.offset == offset, "nothing changed, so nothing is written"
        removals = (quota(produce, None), quota("request_percentage", None))
        assert await alter(node, user, *removals) is ErrorCode.NONE
        assert node.image.security.quotas == {}


@pytest.mark.parametrize(
    ("entity", "op"),
    [
        ({}, quota("producer_byte_rate", 1.0)),
        ({"tenant": "x"}, quota("producer_byte_rate", 1.0)),
        ({"user": ""}, quota("producer_byte_rate", 1.0)),
        ({"user": "u", "ip": "::1"}, quota("producer_byte_rate", 1.0)),
        ({"ip": "::1"}, quota("producer_byte_rate", 1.0)),
        ({"ip": "not a host name"}, quota("connection_creation_rate", 1.0)),
        ({"user": "u"}, quota("connection_creation_rate", 1.0)),
        ({"user": "u"}, quota("nonsense", 1.0)),
        ({"user": "u"}, quota("producer_byte_rate", -1.0)),
        ({"user": "u"}, quota("producer_byte_rate", 1.5)),
        ({"user": "u"}, quota("producer_byte_rate", 1e30)),
        ({"user": "u"}, quota("request_percentage", float("nan"))),
        ({"user": "u"}, quota("request_percentage", float("inf"))),
    ],
)
async def test_invalid_quotas_are_rejected(entity: dict[str, str | None], op: alter_quotas.OpData) -> None:
    async with admin_node() as node:
        assert await alter(node, entity, op) is ErrorCode.INVALID_REQUEST
        assert node.image.security.quotas == {}


async def test_entries_beside_a_host_without_an_address_are_decided() -> None:
    async with admin_node() as node:
        rate = quota("connection_creation_rate", 1.0)
        request = alter_quotas.AlterClientQuotasRequest(
            entries=[
                alter_quotas.EntryData(
                    entity=[alter_quotas.EntityData(entity_type="ip", entity_name=host)], ops=[rate]
                )
                for host in ("not a host name", "10.0.0.1", "localhost")
            ]
        )
        entries = (await exchange(alter_quotas_of_clients, node, request)).entries
        codes = {each.entity[0].entity_name: ErrorCode(each.error_code) for each in entries}
        assert codes == {
            "not a host name": ErrorCode.INVALID_REQUEST,
            "10.0.0.1": ErrorCode.NONE,
            "localhost": ErrorCode.NONE,
        }
        assert [entity for (entity,) in node.image.security.quotas] == [
            ("ip", "10.0.0.1"),
            ("ip", "localhost"),
        ]


async def test_scram_credentials() -> None:
    async with admin_node() as node:

        async def described(users: list[str] | None) -> list[tuple[str, int, list[int]]]:
            request = DescribeUserScramCredentialsRequest(
                users=None if users is None else [UserName(name=user) for user in users]
            )
            response = await exchange(describe_user_scram_credentials.handle, node, request)
            assert response.error_code == 0
            return [
                (each.user, each.error_code, [info.iterations for info in each.credential_infos])
                for each in response.results
            ]

        assert await described(None) == []
        assert await described([]) == []
        assert await described(["u"]) == [("u", ErrorCode.RESOURCE_NOT_FOUND, [])]
        assert await described(["u", "u"]) == [("u", ErrorCode.DUPLICATE_RESOURCE, [])]
        node.image.replay(UserScramCredentialRecord(name="u", mechanism=1, iterations=4096))
        assert await described(None) == await described(["u"]) == [("u", 0, [4096])]


def upsertion(name: str, **fields: object) -> ScramCredentialUpsertion:
    values = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)} | fields
    return ScramCredentialUpsertion(name=name, **values)  # type: ignore[arg-type]


async def alter_users(
    node: AdminNode,
    upsertions: list[ScramCredentialUpsertion] | None = None,
    deletions: list[ScramCredentialDeletion] | None = None,
) -> dict[str, ErrorCode]:
    request = AlterUserScramCredentialsRequest(deletions=deletions or [], upsertions=upsertions or [])
    response = await exchange(decide, node, request)
    return {each.user: ErrorCode(each.error_code) for each in response.results}


async def test_users_are_added_changed_and_deleted() -> None:
    async with admin_node() as node:
        salted = salted_password(ScramMechanism.SCRAM_SHA_256, Secret("pw"), b"salt", 8192)
        added = upsertion("alice", iterations=8192, salted_password=salted)
        assert await alter_users(node, [added]) == {"alice": ErrorCode.NONE}
        record = node.image.security.scram_credentials["alice", 1]
        expected = new_credential(ScramMechanism.SCRAM_SHA_256, Secret("pw"), 8192, b"salt")
        assert (bytes(record.stored_key), bytes(record.server_key)) == expected[1:3]
        deletion = ScramCredentialDeletion(name="alice", mechanism=1)
        assert await alter_users(node, None, [deletion]) == {"alice": ErrorCode.NONE}
        assert node.image.security.scram_credentials == {}
        assert await alter_users(node, None, [deletion]) == {"alice": ErrorCode.RESOURCE_NOT_FOUND}


async def test_invalid_users_are_rejected_and_the_others_added() -> None:
    async with admin_node() as node:
        results = await alter_users(
            node,
            [
                upsertion("good"),
                upsertion("weak", iterations=4095),
                upsertion("slow", iterations=16385),
                upsertion("strange", mechanism=3),
                upsertion(""),
                upsertion("twice"),
                upsertion("twice", mechanism=2),
            ],
        )
        assert results == {
            "good": ErrorCode.NONE,
            "weak": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "slow": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "strange": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "twice": ErrorCode.DUPLICATE_RESOURCE,
        }
        assert list(node.image.security.scram_credentials) == [("good", 1)]


@pytest.mark.parametrize("request_", [RenewDelegationTokenRequest(), ExpireDelegationTokenRequest()])
async def test_a_controller_lets_no_unauthenticated_client_change_tokens(request_: Message) -> None:
    handle = HANDLERS_OF_CONTROLLER[type(request_).__name__.removesuffix("Request")]
    async with admin_node({"delegation.token.secret.key": "key"}) as node:
        response: Any = await exchange(handle, node, request_, listener="CONTROLLER", as_response=True)
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def creation(name: str = "orders", **fields: object) -> AclCreation:
    values = {
        "resource_type": ResourceType.TOPIC,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(resource_name=name, **values | fields)  # type: ignore[arg-type]


async def secured(node: AdminNode) -> None:
    node.authorization = Authorization(Authorizer(), AuditLog("", node.clock, 1), pytest.fail)
    node.metadata.subscribe(node.authorization.on_metadata_change)


async def create_all(node: AdminNode, *creations: AclCreation) -> list[ErrorCode]:
    response = await exchange(create, node, CreateAclsRequest(creations=list(creations)))
    return [ErrorCode(each.error_code) for each in response.results]


async def test_acls_are_created_described_and_deleted() -> None:
    async with admin_node() as node:
        await secured(node)
        prefixed = creation("ord", resource_pattern_type=PatternType.PREFIXED, operation=Operation.WRITE)
        assert await create_all(node, creation(), prefixed, creation()) == [ErrorCode.NONE] * 3
        assert await create_all(node, creation()) == [ErrorCode.NONE]
        assert len(node.image.security.acls) == 2, "an ACL exists once"
        wanted = DescribeAclsRequest(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter="orders",
            pattern_type_filter=PatternType.MATCH,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        described = await exchange(describe_acls.handle, node, wanted)
        found = {(each.resource_name, acl.operation) for each in described.resources for acl in each.acls}
        assert found == {("orders", Operation.READ), ("ord", Operation.WRITE)}
        deletion = DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter="User:alice",
            host_filter=None,
            operation=Operation.WRITE,
            permission_type=Permission.ANY,
        )
        deleted = await exchange(delete, node, DeleteAclsRequest(filters=[deletion, deletion]))
        assert [
            [each.resource_name for each in result.matching_acls] for result in deleted.filter_results
        ] == [["ord"], ["ord"]]
        assert [acl.resource_name for acl in node.image.security.acls.values()] == ["orders"]


@pytest.mark.parametrize(
    "invalid",
    [
        creation(""),
        creation(resource_type=ResourceType.ANY),
        creation(resource_type=99),
        creation(resource_type=ResourceType.CLUSTER),
        creation(resource_pattern_type=PatternType.MATCH),
        creation(principal="alice"),
        creation(operation=Operation.ANY),
        creation(operation=99),
        creation(permission_type=Permission.ANY),
    ],
)
async def test_invalid_acls_are_rejected_and_the_others_created(invalid: AclCreation) -> None:
    async with admin_node() as node:
        await secured(node)
        assert await create_all(node, invalid, creation()) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert len(node.image.security.acls) == 1


async def test_unknown_values_in_filters_are_rejected() -> None:
    async with admin_node() as node:
        await secured(node)
        wanted = DescribeAclsRequest(resource_type_filter=99, operation=1, permission_type=1)
        described = await exchange(describe_acls.handle, node, wanted, as_response=True)
        assert ErrorCode(described.error_code) is ErrorCode.INVALID_REQUEST
        unknown = DeleteAclsFilter(resource_type_filter=99, operation=1, permission_type=1)
        deleted = await exchange(delete, node, DeleteAclsRequest(filters=[unknown]))
        (result,) = deleted.filter_results
        assert ErrorCode(result.error_code) is ErrorCode.INVALID_REQUEST
