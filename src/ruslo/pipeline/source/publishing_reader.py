"""A stream that publishes its own progress as a consumer group.

For Spark Connect, whose clients cannot ask a query for its sources' options, as the listener of classic
sessions does. A source learns that a batch is done when Spark asks for the end of the next one: the group is
a trigger behind, and where a query was stopped is published when it is started again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from ruslo.model.errors import RusloError
from ruslo.pipeline.group_progress import GroupProgress, SourceGroup
from ruslo.pipeline.source.offsets import SourceOffsets
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.stream_reader import StreamReader

_PATIENCE_MS = 5_000
"""Batches wait while the group is committed; what is only for people to see must not hold them up long."""
_PAUSE_S = 30.0
"""After a commit that failed, so that not every batch waits in vain."""


class PublishingReader(StreamReader):
    """``group_id`` is that of ``options``, which must have one."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        assert options.group_id is not None, "without a group a stream has nothing to publish"
        client = replace(
            options.client,
            api_timeout_ms=min(options.client.api_timeout_ms, _PATIENCE_MS),
            request_timeout_ms=min(options.client.request_timeout_ms, _PATIENCE_MS),
            connect_timeout_ms=min(options.client.connect_timeout_ms, _PATIENCE_MS),
        )
        self._group = SourceGroup(client, options.group_id)
        self._progress = GroupProgress()
        self._silent_until_s = 0.0

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if time.monotonic() >= self._silent_until_s:
            self._publish(SourceOffsets.from_json(start))
        return super().latestOffset(start, limit)

    def _publish(self, reached: SourceOffsets) -> None:
        try:
            self._progress.publish(self._group, reached.offsets)
        except RusloError as error:
            self._silent_until_s = time.monotonic() + _PAUSE_S
            self._progress.report(f"group {self._group.group_id}", error)
