"""Requests about ACLs, quotas and SCRAM credentials, on a node that stores none."""

from __future__ import annotations

import pytest

from ruslo.broker.handlers import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
)
from ruslo.model.errors import ErrorCode
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
from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from tests.support.brokers.handlers import exchange
from tests.support.machines.controller_bench import AdminNode, admin_node

EXACT, DEFAULT, SPECIFIED = range(3)


@pytest.mark.parametrize("version", range(1, 4))
async def test_acls_need_an_authorizer(version: int) -> None:
    async with admin_node() as node:
        described = await exchange(describe_acls.handle, node, DescribeAclsRequest(), version)
        assert ErrorCode(described.error_code) is ErrorCode.SECURITY_DISABLED
        assert described.error_message
        creations = CreateAclsRequest(creations=[AclCreation(), AclCreation()])
        created = await exchange(create_acls.handle, node, creations, version)
        assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        filters = DeleteAclsRequest(filters=[DeleteAclsFilter(), DeleteAclsFilter()])
        deleted = await exchange(delete_acls.handle, node, filters, version)
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


async def test_quotas_cannot_be_set() -> None:
    async with admin_node() as node:
        entity = alter_quotas.EntityData(entity_type="user", entity_name=None)
        request = alter_quotas.AlterClientQuotasRequest(
            entries=[
                alter_quotas.EntryData(
                    entity=[entity], ops=[alter_quotas.OpData(key="producer_byte_rate", value=1.0)]
                )
            ]
        )
        (entry,) = (await exchange(alter_client_quotas.handle, node, request)).entries
        assert ErrorCode(entry.error_code) is ErrorCode.UNSUPPORTED_VERSION
        assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", None)]


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


async def test_scram_credentials_cannot_be_set() -> None:
    async with admin_node() as node:
        request = AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="a", mechanism=1)],
            upsertions=[ScramCredentialUpsertion(name="b"), ScramCredentialUpsertion(name="a")],
        )
        response = await exchange(alter_user_scram_credentials.handle, node, request)
        assert [(each.user, each.error_code) for each in response.results] == [
            ("a", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            ("b", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ]
