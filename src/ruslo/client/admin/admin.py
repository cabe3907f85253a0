"""The admin client: one attribute per noun."""

from __future__ import annotations

from typing import Self

from ruslo.client.admin.acls import Acls
from ruslo.client.admin.brokers import Brokers
from ruslo.client.admin.configs import Configs
from ruslo.client.admin.features import Features
from ruslo.client.admin.group_offsets import GroupOffsets
from ruslo.client.admin.groups import Groups
from ruslo.client.admin.leader_elections import LeaderElections
from ruslo.client.admin.log_dirs import LogDirs
from ruslo.client.admin.offsets import Offsets
from ruslo.client.admin.producers import Producers
from ruslo.client.admin.quorum import QuorumAdmin
from ruslo.client.admin.quotas import Quotas
from ruslo.client.admin.reassignments import Reassignments
from ruslo.client.admin.share_group_offsets import ShareGroupOffsets
from ruslo.client.admin.share_groups import ShareGroups
from ruslo.client.admin.streams_groups import StreamsGroups
from ruslo.client.admin.tokens import Tokens
from ruslo.client.admin.topics import Topics
from ruslo.client.admin.transactions import Transactions
from ruslo.client.admin.users import Users
from ruslo.client.wire.cluster import Cluster
from ruslo.net.channel import ChannelSettings


class Admin:
    """``async with Admin("127.0.0.1:9092") as admin: await admin.topics.list()``."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: ChannelSettings | None = None,
        api_timeout_ms: int = 60_000,
    ) -> None:
        self.cluster = Cluster(bootstrap_servers, settings=settings, api_timeout_ms=api_timeout_ms)
        self.topics = Topics(self.cluster)
        self.configs = Configs(self.cluster)
        self.offsets = Offsets(self.cluster)
        self.brokers = Brokers(self.cluster)
        self.features = Features(self.cluster)
        self.reassignments = Reassignments(self.cluster)
        self.leader_elections = LeaderElections(self.cluster)
        self.quorum = QuorumAdmin(self.cluster)
        self.log_dirs = LogDirs(self.cluster)
        self.producers = Producers(self.cluster)
        self.groups = Groups(self.cluster)
        self.group_offsets = GroupOffsets(self.cluster, self.groups.coordinators)
        self.share_groups = ShareGroups(self.cluster, self.groups.coordinators)
        self.share_group_offsets = ShareGroupOffsets(self.cluster, self.groups.coordinators)
        self.streams_groups = StreamsGroups(self.cluster, self.groups.coordinators)
        self.transactions = Transactions(self.cluster)
        self.acls = Acls(self.cluster)
        self.users = Users(self.cluster)
        self.quotas = Quotas(self.cluster)
        self.tokens = Tokens(self.cluster)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.cluster.close()
