"""How the lag of groups went: in records for all of them, in seconds for those that somebody looks at."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import NamedTuple

from ruslo.client.admin import Admin
from ruslo.client.group_view import GroupRow, list_rows
from ruslo.console.sampler import Sampler
from ruslo.model.errors import KafkaError, ProtocolError

_EVERY_S = 5.0
_SAMPLES = 240
_GROUPS_MAX = 500
_WORK_SHARE = 20


class LagSample(NamedTuple):
    time_s: float
    records: int
    seconds: float | None


class LagHistory:
    def __init__(self, admin: Admin, sampler: Sampler) -> None:
        self._admin = admin
        self._sampler = sampler
        self._samples: dict[str, deque[LagSample]] = {}

    def of(self, group_id: str) -> list[LagSample]:
        return list(self._samples.get(group_id, ()))

    def note(self, group_id: str, records: int | None, seconds: float | None = None) -> None:
        if records is None or (group_id not in self._samples and len(self._samples) >= _GROUPS_MAX):
            return
        self._samples.setdefault(group_id, deque(maxlen=_SAMPLES)).append(
            LagSample(time.time(), records, seconds)
        )

    async def rows(self) -> list[GroupRow]:
        """All groups with their lag, which is noted on the way."""
        rows = await list_rows(self._admin, with_lag=True)
        present = {row.group_id for row in rows}
        self._samples = {name: samples for name, samples in self._samples.items() if name in present}
        for row in rows:
            self.note(row.group_id, row.lag)
        return rows

    async def run(self) -> None:
        """With the sampler: whenever it looks, but not more often than is due."""
        next_s = 0.0
        async for _ in self._sampler.unhurried_news():
            if time.monotonic() < next_s or self._sampler.problem is not None:
                continue
            started = time.monotonic()
            try:
                async with asyncio.timeout(10):
                    await self.rows()
            except (KafkaError, ProtocolError, TimeoutError) as error:
                logging.getLogger(__name__).debug("groups cannot be looked at: %s", error)
            next_s = time.monotonic() + max(_EVERY_S, (time.monotonic() - started) * _WORK_SHARE)
