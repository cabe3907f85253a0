"""Clients of a secured node whose users send the requests of ``requests`` under changing ACLs."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.settings.channel_security import channel_security
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import ChannelSettings
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ruslo.protocol.messages.create_acls_response import CreateAclsResponse
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ruslo.protocol.messages.delete_acls_response import DeleteAclsResponse
from ruslo.protocol.messages.describe_acls_request import DescribeAclsRequest
from ruslo.protocol.messages.describe_acls_response import DescribeAclsResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ruslo.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ruslo.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ruslo.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.support.authorization.names import (
    DOOMED,
    GROUPS,
    LIVE_GROUP,
    LIVE_TOPICS,
    OPEN_TRANSACTION,
    SHARE_GROUP,
    TOPICS,
    TRANSACTIONAL_IDS,
    Names,
)
from tests.support.authorization.outcomes import Outcome, outcome
from tests.support.authorization.requests import request
from tests.support.brokers.secured import USERS, Secured
from tests.support.clients.raw_client import RawClient, connected
from tests.support.groups.share_requests import alter_request

PROPERTIES = {
    "delegation.token.secret.key": "a key of tests",
    # A client that may create topics gets another error than one that may not, and nothing is created.
    "default.replication.factor": "3",
    # The records that are produced are old.
    "log.retention.ms": "-1",
    # The member of a group sends no heartbeats.
    "group.consumer.session.timeout.ms": "3600000",
    "group.consumer.max.session.timeout.ms": "3600000",
}
"""Properties of the nodes."""
TRANSACTION_TIMEOUT_MS = 900_000
"""The longest that ``transaction.max.timeout.ms`` allows."""
LAST_CLIENT_VERSION = 3
"""The last version of AddPartitionsToTxn that clients send."""
TRANSACTIONS = 1
"""The key type of transactional ids in FindCoordinator."""


class Call(NamedTuple):
    api: str
    version: int


class AccessClients:
    """The clients of one node, and the ids of what it stores."""

    def __init__(self, users: dict[str, RawClient], super_client: RawClient, controller: RawClient) -> None:
        self._users = users
        self._super_client = super_client
        self._controller = controller
        self._topic_ids: dict[str, bytes] = {}
        self._tokens: dict[str, bytes] = {}
        self._acl_sets = 0

    async def apply(self, acls: Sequence[Acl]) -> None:
        """Replace all ACLs, and return when the broker and the controller decide by the new ones."""
        await self._super_client.call(DeleteAclsRequest(filters=[_every_acl()]), DeleteAclsResponse)
        self._acl_sets += 1
        last = Acl(
            ResourceType.TOPIC,
            "last",
            PatternType.LITERAL,
            f"User:last-{self._acl_sets}",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
        # The last ACL has a record of its own behind the others: a node that has applied it has all.
        for part in (acls, [last]):
            created = await self._super_client.call(_creation(part), CreateAclsResponse)
            assert not any(result.error_code for result in created.results), created
        query = DescribeAclsRequest(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=last.principal,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        for client in (self._super_client, self._controller):
            while not (await client.call(query, DescribeAclsResponse)).resources:
                pass

    async def create_resources(self, secured: Secured) -> None:
        """Create groups with offsets, transactional ids, and a delegation token for each user."""
        async with Admin(secured.addresses["PLAINTEXT"]) as admin:
            await admin.topics.create([NewTopic(name, 1, 1) for name in LIVE_TOPICS])
            for group in (*GROUPS, LIVE_GROUP):
                await admin.group_offsets.alter(group, {TopicPartition(LIVE_TOPICS[0], 0): 0})
        await self._join_group()
        await self._create_share_group()
        names = [*TRANSACTIONAL_IDS, OPEN_TRANSACTION]
        find = FindCoordinatorRequest(key_type=TRANSACTIONS, coordinator_keys=names)
        while any(
            each.error_code
            for each in (await self._super_client.call(find, FindCoordinatorResponse)).coordinators
        ):
            pass
        for name in names:
            init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
            while (producer := await self._super_client.call(init, InitProducerIdResponse)).error_code:
                pass
        await self._open_transaction(producer)
        for user in USERS:
            await self._create_token(secured, user)

    async def _join_group(self) -> None:
        """A member joins; its session does not end before the comparison does."""
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=LIVE_GROUP,
            member_id="member",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=list(LIVE_TOPICS),
            topic_partitions=[],
        )
        joined = await self._super_client.call(heartbeat, ConsumerGroupHeartbeatResponse)
        assert not joined.error_code, joined

    async def _create_share_group(self) -> None:
        request = alter_request({LIVE_TOPICS[0]: {0: 0}}, SHARE_GROUP)
        altered = await self._super_client.call(request, AlterShareGroupOffsetsResponse)
        codes = [each.error_code for topic in altered.responses for each in topic.partitions]
        assert (altered.error_code, codes) == (0, [0]), altered

    async def _open_transaction(self, producer: InitProducerIdResponse) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=OPEN_TRANSACTION,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in LIVE_TOPICS],
        )
        added = await self._super_client.call(request, AddPartitionsToTxnResponse, LAST_CLIENT_VERSION)
        results = [
            each for topic in added.results_by_topic_v3_and_below for each in topic.results_by_partition
        ]
        assert not any(each.partition_error_code for each in results), added

    async def _create_token(self, secured: Secured, user: str) -> None:
        client = secured.client("SASL_PLAINTEXT", user, "PLAIN")
        settings = ChannelSettings(security=channel_security(client))
        async with Admin(client["bootstrap.servers"], settings=settings) as admin:
            token = await admin.tokens.create()
            while token.token_id not in {each.token_id for each in await admin.tokens.list()}:
                pass
        self._tokens[user] = base64.b64decode(token.hmac.reveal())

    async def restore_topics(self) -> None:
        """Create topics again that a request has deleted."""
        names = (*TOPICS, *DOOMED)
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        creation = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        await self._super_client.call(creation, CreateTopicsResponse)
        while True:
            metadata = await self._super_client.call(MetadataRequest(topics=None), MetadataResponse)
            led = all(each.leader_id >= 0 for topic in metadata.topics for each in topic.partitions)
            self._topic_ids = {topic.name: topic.topic_id for topic in metadata.topics if topic.name}
            if led and self._topic_ids.keys() >= set(names):
                return

    async def outcomes(self, user: str, calls: Sequence[Call], seed: str) -> list[Outcome]:
        """Send all requests, then receive their responses: a node handles them in this order."""
        client = self._users[user]
        for call in calls:
            client.send(self.request(call, seed), call.version)
        names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        return [outcome(call.api, await client.receive(Message), names) for call in calls]  # type: ignore[type-abstract]

    def request(self, call: Call, seed: str) -> Message:
        source = Random(f"{seed} {call}")
        return request(call.api, Names(source, call.version, self._topic_ids, self._tokens, tuple(USERS)))


@asynccontextmanager
async def access_clients(secured: Secured) -> AsyncIterator[AccessClients]:
    async with AsyncExitStack() as stack:
        users = {
            user: await stack.enter_async_context(connected(secured.addresses["SASL_PLAINTEXT"]))
            for user in USERS
        }
        for user, client in users.items():
            await client.call(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
            login = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{USERS[user]}".encode())
            await client.call(login, SaslAuthenticateResponse)
        super_client = await stack.enter_async_context(connected(secured.addresses["PLAINTEXT"]))
        address = f"127.0.0.1:{secured.node.controller_port}"
        controller = await stack.enter_async_context(connected(address))
        clients = AccessClients(users, super_client, controller)
        await clients.create_resources(secured)
        yield clients


def _every_acl() -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )


def _creation(acls: Iterable[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
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
