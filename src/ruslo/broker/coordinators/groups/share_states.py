"""Executes the queries of share groups to the share coordinators."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from ruslo.broker.coordinators.share.persister import SharePersister
from ruslo.machines.groups.share.events import (
    DeleteShareState,
    InitializeShareState,
    ShareQuery,
    ShareResult,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ruslo.machines.share_coordinator.responses import ShareRequest, split
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.delete_share_group_state_request import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from ruslo.protocol.messages.delete_share_group_state_request import (
    PartitionData as PartitionToDelete,
)
from ruslo.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from ruslo.protocol.messages.initialize_share_group_state_request import (
    PartitionData as PartitionToInitialize,
)

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class ShareStates:
    _persister: SharePersister

    async def execute(self, query: ShareQuery) -> ShareResult:
        """The result; there always is one, because requests may wait for it."""
        if isinstance(query, InitializeShareState):
            codes = await self._request(_initialize_request(query))
            return ShareStateInitialized(query.group_id, codes, query.token)
        codes = await self._request(_delete_request(query))
        return ShareStateDeleted(query.group_id, codes, query.token)

    async def _request(self, request: ShareRequest) -> dict[Uuid, dict[int, ErrorCode]]:
        results: Any = {}
        try:
            results = await self._persister.request(request)
        except Exception:
            logger.exception("A request about states of share group %r failed", request.group_id)
        codes: dict[Uuid, dict[int, ErrorCode]] = {}
        failures = []
        for key, _ in split(request):
            result = results.get(key)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if result is None else ErrorCode(result.error_code)
            codes.setdefault(key.topic_id, {})[key.partition] = code
            if result is not None and result.error_code:
                failures.append(f"{key}: {result.error_message or code.name}")
        if failures:
            api = type(request).__name__.removesuffix("Request")
            logger.warning("%s failed for %d share-partitions, such as %s", api, len(failures), failures[0])
        return codes


def _initialize_request(query: InitializeShareState) -> InitializeShareGroupStateRequest:
    return InitializeShareGroupStateRequest(
        group_id=query.group_id,
        topics=[
            InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    PartitionToInitialize(partition=index, state_epoch=query.state_epoch, start_offset=offset)
                    for index, offset in offsets.items()
                ],
            )
            for topic_id, offsets in query.start_offsets.items()
        ],
    )


def _delete_request(query: DeleteShareState) -> DeleteShareGroupStateRequest:
    return DeleteShareGroupStateRequest(
        group_id=query.group_id,
        topics=[
            DeleteStateData(
                topic_id=topic_id,
                partitions=[PartitionToDelete(partition=index) for index in sorted(partitions)],
            )
            for topic_id, partitions in query.partitions.items()
        ],
    )
