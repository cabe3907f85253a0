from __future__ import annotations

import asyncio
import logging

import pytest

from ruslo.broker.node.quota_updates import QuotaUpdates
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.quota import ClientQuotas, Windows
from ruslo.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData

WINDOWS = Windows(11, 1000)


class Node:
    def __init__(self) -> None:
        self.quotas = ClientQuotas(WINDOWS, WINDOWS)
        self.updates = QuotaUpdates(self.quotas)
        self.image = MetadataImage()

    def set_rate(self, rate: float, *hosts: str) -> None:
        delta = MetadataDelta()
        for host in hosts:
            entity = [EntityData(entity_type="ip", entity_name=host)]
            self.image.replay(
                ClientQuotaRecord(entity=entity, key="connection_creation_rate", value=rate), delta
            )
        self.updates.on_metadata_change(delta, self.image)

    async def looked_up(self) -> None:
        await asyncio.wait(list(self.updates._lookup))


async def test_quota_of_a_host_name_applies_to_its_addresses() -> None:
    node = Node()
    node.set_rate(7, "localhost")
    node.set_rate(5, "10.0.0.1")
    assert node.quotas.connection_rate("10.0.0.1") == 5
    await node.looked_up()
    assert 7 in (node.quotas.connection_rate("127.0.0.1"), node.quotas.connection_rate("::1"))
    assert node.quotas.connection_rate("10.0.0.1") == 5
    await node.updates.stop()


async def test_quota_of_an_address_wins_over_the_quota_of_its_name() -> None:
    node = Node()
    node.set_rate(7, "localhost")
    node.set_rate(5, "127.0.0.1", "::1")
    await node.looked_up()
    assert node.quotas.connection_rate("127.0.0.1") == node.quotas.connection_rate("::1") == 5


async def test_name_without_an_address_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    with caplog.at_level(logging.WARNING):
        node.set_rate(7, "not a host name")
        await node.looked_up()
    assert "not a host name has no effect" in caplog.text
    assert node.quotas.connection_rate("10.0.0.1") is None
