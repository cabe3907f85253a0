"""A stream reader that publishes its own progress as a consumer group, for Spark Connect.

In classic sessions a listener does it, which reads the options of a query's sources from the JVM. Spark
Connect clients cannot. A source learns that a batch is done when Spark requests the end of the next one, so
the group is one trigger behind, and the last batch before a stop is published after the next start.
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

_COMMIT_TIMEOUT_MS = 5_000
"""Batches wait for the commit, which is only informational, so its timeout is short."""
_RETRY_INTERVAL_S = 30.0
"""The time without commits after one that failed, so that not every batch waits for a timeout."""


class PublishingReader(StreamReader):
    """``options`` must have a ``group_id``."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        assert options.group_id is not None, "only streams with a group id are published"
        client = replace(
            options.client,
            api_timeout_ms=min(options.client.api_timeout_ms, _COMMIT_TIMEOUT_MS),
            request_timeout_ms=min(options.client.request_timeout_ms, _COMMIT_TIMEOUT_MS),
            connect_timeout_ms=min(options.client.connect_timeout_ms, _COMMIT_TIMEOUT_MS),
        )
        self._group = SourceGroup(client, options.group_id)
        self._progress = GroupProgress()
        self._next_commit_s = 0.0

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if time.monotonic() >= self._next_commit_s:
            self._publish(SourceOffsets.from_json(start))
        return super().latestOffset(start, limit)

    def _publish(self, reached: SourceOffsets) -> None:
        try:
            self._progress.publish(self._group, reached.offsets)
        except RusloError as error:
            self._next_commit_s = time.monotonic() + _RETRY_INTERVAL_S
            self._progress.log_failure(f"group {self._group.group_id}", error)
