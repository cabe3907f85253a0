"""The records that brokers say they have lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ruslo.client.admin.configs import Resource

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin

LOST_DATA = "ruslo.lost.data"


async def lost_data(admin: Admin, brokers: Iterable[int]) -> list[str]:
    """A line for each place in a log whose records are lost, of brokers that are not fenced."""
    lines = []
    for broker_id in brokers:
        entries = await admin.configs.describe(Resource.broker(broker_id), [LOST_DATA])
        found = next((entry.value or "" for entry in entries if entry.name == LOST_DATA), "")
        lines += [f"broker {broker_id}: {line}" for line in found.splitlines()]
    return lines
