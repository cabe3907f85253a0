"""Share groups (KIP-932): describe. ``groups.py`` lists and deletes groups of all types."""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.client.admin.group_descriptions import GroupDescription, from_share
from ruslo.client.admin.group_errors import descriptions
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse


class ShareGroups:
    def __init__(self, cluster: Cluster, coordinators: Coordinators) -> None:
        self._cluster = cluster
        self._coordinators = coordinators

    async def describe(self, group_ids: Sequence[str]) -> dict[str, GroupDescription | KafkaError]:
        """The group, or the error, by group id; GROUP_ID_NOT_FOUND for groups of other types."""

        async def query(node: int, owned: list[str]) -> dict[str, GroupDescription | KafkaError]:
            response = await self._cluster.node(
                node, ShareGroupDescribeRequest(group_ids=owned), ShareGroupDescribeResponse
            )
            return descriptions("share group", response.groups, lambda group: from_share(group, node))

        return await self._coordinators.each(list(dict.fromkeys(group_ids)), query)
