"""Users, ACLs and quotas of one data directory under Ruslo and Apache Kafka alternately."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.settings.channel_security import channel_security
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.net.channel import ChannelSettings
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import random_cluster_id
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import Secured, add_scram_users, secured_node
from tests.support.tools.programs import require_tool

ACLS = [
    Acl(ResourceType.TOPIC, "o", PatternType.PREFIXED, "User:bob", "*", Operation.READ, Permission.ALLOW),
    Acl(ResourceType.GROUP, "g", PatternType.LITERAL, "User:bob", "*", Operation.READ, Permission.DENY),
]
SYSTEMS: list[list[type[RusloNode] | type[ApacheKafka]]] = [
    [RusloNode, ApacheKafka, RusloNode],
    [ApacheKafka, RusloNode],
]


async def write(secured: Secured) -> None:
    bootstrap = secured.addresses["PLAINTEXT"]
    await add_scram_users(bootstrap, ["alice", "bob"])
    async with Admin(bootstrap) as admin:
        await admin.acls.create(ACLS)
        await admin.quotas.alter({"user": "bob", "client-id": None}, {"producer_byte_rate": 1024.0})
        await admin.quotas.alter({"ip": "127.0.0.9"}, {"connection_creation_rate": 7.0})


async def described(secured: Secured) -> tuple[Any, ...]:
    """What a user, logged in with SCRAM, and an administrator see."""
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        client = secured.client("SASL_SSL", "bob", mechanism)
        settings = ChannelSettings(security=channel_security(client))
        async with Admin(client["bootstrap.servers"], settings=settings) as admin:
            await admin.topics.list()
    async with Admin(secured.addresses["PLAINTEXT"]) as admin:
        return (
            sorted(await admin.users.list(), key=lambda user: user.name),
            sorted(map(str, await admin.acls.list())),
            sorted(await admin.quotas.list(), key=lambda quota: str(quota.values)),
        )


@pytest.mark.parametrize("systems", SYSTEMS, ids=["ruslo first", "kafka first"])
def test_users_acls_and_quotas_survive_the_exchange(
    tmp_path: Path, systems: list[type[RusloNode] | type[ApacheKafka]]
) -> None:
    require_tool("java")
    cluster_id = random_cluster_id()
    seen: list[tuple[Any, ...]] = []
    for number, system in enumerate(systems):
        folder = tmp_path / str(number)
        secured = secured_node(system, folder, data_dirs=[tmp_path / "data"], cluster_id=cluster_id)
        with secured.node:
            if number == 0:
                asyncio.run(write(secured))
            seen.append(asyncio.run(described(secured)))
    assert all(seen[0])
    for each in seen[1:]:
        assert each == seen[0]
