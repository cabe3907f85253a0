"""Groups and how their lag went: in records for all of them, in seconds for those that somebody looks at."""

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

_EVERY_S = 5.0
_YOUNG_S = 1.0
_SAMPLES = 240
_GROUPS_MAX = 500
_WORK_SHARE = 20
"""One part of work, so many of pause."""
_SURVEY_WITHIN_S = 10.0


class LagSample(NamedTuple):
    time_s: float
    records: int
    seconds: float | None


class LagHistory:
    def __init__(self, admin: Admin, sampler: Sampler) -> None:
        self._admin = admin
        self._sampler = sampler
        self._samples: dict[str, deque[LagSample]] = {}
        self._last: GroupSurvey | None = None
        self._young_until_s = 0.0
        self._took_s = 0.0
        self._one_at_a_time = asyncio.Lock()

    def of(self, group_id: str) -> list[LagSample]:
        return list(self._samples.get(group_id, ()))

    def note(self, group_id: str, records: int | None, seconds: float | None = None) -> None:
        if records is None or (group_id not in self._samples and len(self._samples) >= _GROUPS_MAX):
            return
        self._samples.setdefault(group_id, deque(maxlen=_SAMPLES)).append(
            LagSample(time.time(), records, seconds)
        )

    async def survey(self) -> GroupSurvey:
        """All groups as they were a moment ago; the longer it takes to ask, the longer that moment may be."""
        async with self._one_at_a_time:
            if self._last is None or time.monotonic() > self._young_until_s:
                await self._look()
            assert self._last is not None, "a look that raises nothing leaves a survey"
            return self._last

    async def forget(self) -> None:
        """Something was changed here: the next survey must show it, and one under way is no next one."""
        async with self._one_at_a_time:
            self._last = None

    async def _look(self) -> None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(_SURVEY_WITHIN_S):
                found = await survey_groups(self._admin)
        finally:
            self._took_s = time.monotonic() - started
        self._last = found
        self._young_until_s = time.monotonic() + max(_YOUNG_S, self._took_s * _WORK_SHARE)
        present = dict.fromkeys(group.group_id for group in found.listed)
        self._samples = {name: samples for name, samples in self._samples.items() if name in present}
        for name in present:
            self.note(name, found.lag(name))

    async def run(self) -> None:
        """With the sampler: whenever it looks, but not more often than is due."""
        next_s = 0.0
        async for _ in self._sampler.unhurried_news():
            if time.monotonic() < next_s or self._sampler.problem is not None:
                continue
            try:
                await self.survey()
            except (KafkaError, ProtocolError, TimeoutError) as error:
                logging.getLogger(__name__).debug("groups cannot be looked at: %s", error)
            next_s = time.monotonic() + max(_EVERY_S, self._took_s * _WORK_SHARE)
