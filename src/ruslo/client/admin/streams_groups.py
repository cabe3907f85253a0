"""Streams groups (KIP-1071): describe. ``groups.py`` lists and deletes groups of all types, and
``group_offsets.py`` has the offsets that streams groups commit."""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.client.admin.group_errors import descriptions
from ruslo.client.admin.streams_group_descriptions import StreamsGroupDescription, from_streams
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse

_WITH_TOPOLOGY_DESCRIPTION = 1


class StreamsGroups:
    def __init__(self, cluster: Cluster, coordinators: Coordinators) -> None:
        self._cluster = cluster
        self._coordinators = coordinators

    async def describe(self, group_ids: Sequence[str]) -> dict[str, StreamsGroupDescription | KafkaError]:
        """The group, or the error, by group id; GROUP_ID_NOT_FOUND for groups of other types."""

        async def query(node: int, owned: list[str]) -> dict[str, StreamsGroupDescription | KafkaError]:
            channel = await self._cluster.connection(node)
            request = StreamsGroupDescribeRequest(group_ids=owned)
            request.include_topology_description = channel.version_for(request) >= _WITH_TOPOLOGY_DESCRIPTION
            response = await channel.request(request, StreamsGroupDescribeResponse)
            return descriptions("streams group", response.groups, lambda group: from_streams(group, node))

        return await self._coordinators.each(list(dict.fromkeys(group_ids)), query)
