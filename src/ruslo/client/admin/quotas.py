"""Client quotas of users, client ids and addresses: list and alter (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ruslo.client.wire.cluster import Cluster
from ruslo.net.channel import check_code
from ruslo.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ruslo.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from ruslo.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from ruslo.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse

QuotaEntity: TypeAlias = Mapping[str, str | None]
"""Names by entity type: user, client-id, ip. The name None stands for the default."""
_EXACT, _DEFAULT = 0, 1


class ClientQuota(NamedTuple):
    entity: dict[str, str | None]
    values: dict[str, float]


class Quotas:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, entity: QuotaEntity | None = None, *, strict: bool = False) -> list[ClientQuota]:
        """The quotas of entities that have these names; ``strict``: and no other ones. None: all quotas."""
        components = [
            ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
            for kind, name in (entity or {}).items()
        ]
        request = DescribeClientQuotasRequest(components=components, strict=strict and bool(components))

        async def attempt() -> list[ClientQuota]:
            response = await self._cluster.any_broker(request, DescribeClientQuotasResponse)
            check_code(response.error_code, response.error_message)
            found = [
                ClientQuota(
                    {each.entity_type: each.entity_name for each in entry.entity},
                    {each.key: each.value for each in entry.values},
                )
                for entry in response.entries or ()
            ]
            return sorted(found, key=lambda quota: str(sorted(quota.entity.items(), key=str)))

        return await self._cluster.retrying(attempt)

    async def alter(self, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
        """Set quotas of an entity; None removes one."""
        entry = EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[
                OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in values.items()
            ],
        )
        request = AlterClientQuotasRequest(entries=[entry])

        async def attempt() -> None:
            response = await self._cluster.controller(request, AlterClientQuotasResponse)
            for result in response.entries:
                check_code(result.error_code, result.error_message)

        await self._cluster.retrying(attempt)
