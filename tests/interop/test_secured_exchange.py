"""Users, ACLs, quotas and tokens of one data directory under Ruslo and Apache Kafka alternately."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.tokens import DelegationToken
from ruslo.client.settings.channel_security import channel_security
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.net.channel import ChannelSettings
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import random_cluster_id
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import Secured, add_scram_users, jaas, secured_node
from tests.support.tools.programs import require_tool

ACLS = [
    Acl(ResourceType.TOPIC, "o", PatternType.PREFIXED, "User:bob", "*", Operation.READ, Permission.ALLOW),
    Acl(ResourceType.GROUP, "g", PatternType.LITERAL, "User:bob", "*", Operation.READ, Permission.DENY),
]
SYSTEMS: list[list[type[RusloNode] | type[ApacheKafka]]] = [
    [RusloNode, ApacheKafka, RusloNode],
    [ApacheKafka, RusloNode],
]


def admin_of(client: dict[str, str]) -> Admin:
    settings = ChannelSettings(security=channel_security(client))
    return Admin(client["bootstrap.servers"], settings=settings)


async def write(secured: Secured) -> DelegationToken:
    bootstrap = secured.addresses["PLAINTEXT"]
    await add_scram_users(bootstrap, ["alice", "bob"])
    async with Admin(bootstrap) as admin:
        await admin.acls.create(ACLS)
        await admin.quotas.alter({"user": "bob", "client-id": None}, {"producer_byte_rate": 1024.0})
        await admin.quotas.alter({"ip": "127.0.0.9"}, {"connection_creation_rate": 7.0})
    async with admin_of(secured.client("SASL_SSL", "bob")) as bob:
        token = await bob.tokens.create()
        # A broker of Apache Kafka knows it a moment after the controller.
        while not await bob.tokens.list():
            pass
        return token


async def described(secured: Secured, token: DelegationToken) -> tuple[Any, ...]:
    """What a user, logged in with SCRAM and with a token, and an administrator see."""
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        bob = secured.client("SASL_SSL", "bob", mechanism)
        login = jaas(mechanism, token.token_id, token.hmac.reveal()).replace(";", " tokenauth=true;")
        for client in (bob, {**bob, "sasl.jaas.config": login}):
            async with admin_of(client) as admin:
                await admin.topics.list()
    async with admin_of(secured.client("SASL_SSL", "bob")) as owner:
        tokens = await owner.tokens.list()
    async with Admin(secured.addresses["PLAINTEXT"]) as admin:
        return (
            sorted(await admin.users.list(), key=lambda user: user.name),
            sorted(map(str, await admin.acls.list())),
            sorted(await admin.quotas.list(), key=lambda quota: str(quota.values)),
            [(each.token_id, each.owner, each.expires_at_ms) for each in tokens],
        )


@pytest.mark.parametrize("systems", SYSTEMS, ids=["ruslo first", "kafka first"])
def test_users_acls_quotas_and_tokens_survive_the_exchange(
    tmp_path: Path, systems: list[type[RusloNode] | type[ApacheKafka]]
) -> None:
    require_tool("java")
    cluster_id = random_cluster_id()
    seen: list[tuple[Any, ...]] = []
    for number, system in enumerate(systems):
        folder = tmp_path / str(number)
        secured = secured_node(
            system,
            folder,
            {"delegation.token.secret.key": "key-of-tokens"},
            data_dirs=[tmp_path / "data"],
            cluster_id=cluster_id,
        )
        with secured.node:
            if number == 0:
                token = asyncio.run(write(secured))
            seen.append(asyncio.run(described(secured, token)))
    assert all(seen[0])
    for each in seen[1:]:
        assert each == seen[0]
