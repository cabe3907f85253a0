"""Registers this controller with the active one, once per process (KIP-919)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from ruslo.broker.controller.broker_lifecycle import registered_endpoints
from ruslo.broker.controller.controller_channel import ControllerChannel
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.config.listeners import Endpoint
from ruslo.machines.controller.broker_image import FeatureRange, endpoint_structs, feature_structs
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)

logger = logging.getLogger(__name__)

_RETRY_BACKOFF_MS = 1_000
_UNSUPPORTED_BACKOFF_MS = 30_000
"""Backoff while the metadata.version does not support the registration; it may be upgraded any time."""


class ControllerRegistrar:
    def __init__(
        self,
        controller: ControllerChannel,
        *,
        node_id: int,
        incarnation_id: Uuid,
        endpoints: Sequence[Endpoint],
        features: Mapping[str, FeatureRange] = SUPPORTED_FEATURES,
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._request = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=incarnation_id,
            listeners=endpoint_structs(Listener, registered_endpoints(endpoints)),
            features=feature_structs(Feature, features),
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._register())

    async def stop(self) -> None:
        await cancel_all(self._task)

    async def _register(self) -> None:
        while True:
            backoff_ms = _RETRY_BACKOFF_MS
            try:
                await self._controller.submit(self._request)
                return
            except KafkaError as error:
                if error.code is ErrorCode.UNSUPPORTED_VERSION:
                    backoff_ms = _UNSUPPORTED_BACKOFF_MS
                else:
                    logger.info("controller %d is not registered yet: %s", self._node_id, error)
            await asyncio.sleep(backoff_ms / 1000)
