"""Records that brokers report as lost."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource

LOST_DATA = "ruslo.lost.data"


async def lost_data(admin: Admin, brokers: Iterable[int]) -> list[str]:
    """One line per damaged offset range of the given brokers, which must not be fenced."""
    lines = []
    for broker_id in brokers:
        entries = await admin.configs.describe(Resource.broker(broker_id), [LOST_DATA])
        found = next((entry.value or "" for entry in entries if entry.name == LOST_DATA), "")
        lines += [f"broker {broker_id}: {line}" for line in found.splitlines()]
    return lines
