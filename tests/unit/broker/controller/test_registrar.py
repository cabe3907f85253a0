from __future__ import annotations

import asyncio

import pytest

from ruslo.broker.controller import registrar as controller_registrar
from ruslo.broker.controller.registrar import ControllerRegistrar
from ruslo.model.ids import random_uuid
from ruslo.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.brokers.metadata_log import until
from tests.support.machines.controller_bench import FEATURES, admin_node


async def test_controller_registers_once_the_metadata_version_allows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_registrar, "_UNSUPPORTED_BACKOFF_MS", 1)
    before = {**FEATURES, "metadata.version": 14, "eligible.leader.replicas.version": 0}
    async with admin_node(features=before) as node:
        registrar = ControllerRegistrar(
            node.controller, node_id=7, incarnation_id=random_uuid(), endpoints=[]
        )
        registrar.start()
        await asyncio.sleep(0.01)
        assert node.image.cluster.controllers == {}
        raised = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
        await node.controller.submit(UpdateFeaturesRequest(feature_updates=[raised]))
        await until(lambda: 7 in node.image.cluster.controllers)
        await registrar.stop()
