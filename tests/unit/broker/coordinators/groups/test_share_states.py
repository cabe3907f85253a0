"""Queries of share groups to the share coordinators: each has a result, whatever happens."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ruslo.broker.coordinators.groups.share_states import ShareStates
from ruslo.broker.coordinators.share.persister import Results, SharePersister
from ruslo.machines.groups.share.events import (
    DeleteShareState,
    InitializeShareState,
    ShareStateDeleted,
    ShareStateInitialized,
)
from ruslo.machines.share_coordinator.responses import ShareRequest
from ruslo.model.errors import ErrorCode
from tests.support.brokers.live_node import live_node
from tests.support.share.share_client import SMALL
from tests.support.share.state_requests import read_request

TOKEN = "token"


async def test_states_are_initialized_and_deleted(tmp_path: Path) -> None:
    async with live_node(tmp_path, SMALL) as node:
        topic = await node.create("t", partitions=2)
        persister = node.node.broker.share_persister
        states = ShareStates(persister)
        initialize = InitializeShareState("g", 4, {topic: {0: 7, 1: -1}}, TOKEN)
        done = {topic: {0: ErrorCode.NONE, 1: ErrorCode.NONE}}
        assert await states.execute(initialize) == ShareStateInitialized("g", done, TOKEN)
        (read,) = (await persister.request(read_request(topic=topic))).values()
        assert (read.state_epoch, read.start_offset) == (4, 7)
        older = InitializeShareState("g", 3, {topic: {0: 7}})
        fenced = {topic: {0: ErrorCode.FENCED_STATE_EPOCH}}
        assert await states.execute(older) == ShareStateInitialized("g", fenced)
        delete = DeleteShareState("g", {topic: frozenset({0, 1})}, TOKEN)
        assert await states.execute(delete) == ShareStateDeleted("g", done, TOKEN)
        (gone,) = (await persister.request(read_request(topic=topic))).values()
        assert gone.error_code == ErrorCode.INVALID_REQUEST


class BrokenPersister(SharePersister):
    async def request(self, request: ShareRequest) -> Results:
        raise RuntimeError("a defect")


async def test_a_defect_is_a_result_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with live_node(tmp_path, SMALL) as node:
        topic = await node.create("t")
        broker = node.node.broker
        persister = BrokenPersister(
            broker.shares, broker._share_state_topic, node.node.metadata, broker._links(), 1
        )
        with caplog.at_level(logging.ERROR):
            result = await ShareStates(persister).execute(InitializeShareState("g", 1, {topic: {0: -1}}))
        assert result == ShareStateInitialized("g", {topic: {0: ErrorCode.UNKNOWN_SERVER_ERROR}})
        assert "states of share group 'g' failed" in caplog.text
