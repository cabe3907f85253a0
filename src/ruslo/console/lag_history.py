"""The lag of groups over time: in records for all groups; for those whose page is open, also in seconds, or
what a share group has in flight."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.views.group_survey import GroupSurvey, survey_groups
from ruslo.console.sampler import Sampler
from ruslo.model.errors import KafkaError, ProtocolError

_SAMPLE_INTERVAL_S = 5.0
_MAX_AGE_S = 1.0
_SAMPLES_MAX = 240
_GROUPS_MAX = 500
_PAUSE_FACTOR = 20
"""The pause after a survey, as a multiple of its duration."""
_SURVEY_TIMEOUT_S = 10.0


class LagSample(NamedTuple):
    time_s: float
    records: int
    seconds: float | None
    in_flight: int | None = None
    """Records in flight of a share group; None if the brokers do not report them."""


class LagHistory:
    def __init__(self, admin: Admin, sampler: Sampler) -> None:
        self._admin = admin
        self._sampler = sampler
        self._samples: dict[str, deque[LagSample]] = {}
        self._last: GroupSurvey | None = None
        self._valid_until_s = 0.0
        self._duration_s = 0.0
        self._lock = asyncio.Lock()

    def of(self, group_id: str) -> list[LagSample]:
        return list(self._samples.get(group_id, ()))

    def add(
        self, group_id: str, records: int | None, seconds: float | None = None, in_flight: int | None = None
    ) -> None:
        if records is None or (group_id not in self._samples and len(self._samples) >= _GROUPS_MAX):
            return
        self._samples.setdefault(group_id, deque(maxlen=_SAMPLES_MAX)).append(
            LagSample(time.time(), records, seconds, in_flight)
        )

    async def survey(self) -> GroupSurvey:
        """All groups. The result is cached; the longer a survey takes, the longer it is valid."""
        async with self._lock:
            if self._last is None or time.monotonic() > self._valid_until_s:
                await self._refresh()
            assert self._last is not None, "a refresh that does not raise sets the survey"
            return self._last

    async def invalidate(self) -> None:
        """Discard the cached survey after a change, including one that is in progress."""
        async with self._lock:
            self._last = None

    async def _refresh(self) -> None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(_SURVEY_TIMEOUT_S):
                found = await survey_groups(self._admin)
        finally:
            self._duration_s = time.monotonic() - started
        self._last = found
        self._valid_until_s = time.monotonic() + max(_MAX_AGE_S, self._duration_s * _PAUSE_FACTOR)
        present = dict.fromkeys(group.group_id for group in found.listed)
        self._samples = {name: samples for name, samples in self._samples.items() if name in present}
        for name in present:
            self.add(name, found.lag(name))

    async def run(self) -> None:
        """Sample the lag of all groups after every sample of the cluster, if it is due."""
        next_s = 0.0
        async for _ in self._sampler.background_updates():
            if time.monotonic() < next_s or self._sampler.problem is not None:
                continue
            try:
                await self.survey()
            except (KafkaError, ProtocolError, TimeoutError) as error:
                logging.getLogger(__name__).debug("cannot survey the groups: %s", error)
            next_s = time.monotonic() + max(_SAMPLE_INTERVAL_S, self._duration_s * _PAUSE_FACTOR)
