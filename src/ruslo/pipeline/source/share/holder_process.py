"""The reader's side of the process that holds the locks."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import Final

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.pipeline.source.share.holder_messages import (
    Batch,
    Failed,
    Join,
    NextBatch,
    Release,
    read_message,
    write_message,
)
from ruslo.pipeline.source.share.offset_ranges import OffsetRanges

_MODULE: Final = "ruslo.pipeline.source.share.holder_main"
_STOP_TIMEOUT_S: Final = 30.0


class HolderProcess:
    def __init__(self, join: Join) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Spark adds packages to the path of this process.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # Signals to Spark's processes must not end it before it has left the group.
            start_new_session=True,
        )
        self._send(join)

    def next_batch(
        self, processed: dict[SharePartitionId, OffsetRanges], max_records: int | None, *, is_last: bool
    ) -> Batch:
        """Accept the records of the finished batch, and lock those of the next one."""
        response = self._call(NextBatch(processed, max_records, is_last))
        assert isinstance(response, Batch), response
        return response

    def release(self) -> None:
        """Give back all locked records."""
        self._call(Release())

    def stop(self) -> None:
        """Let it give the locked records back and leave the group."""
        assert self._process.stdin is not None, "it has a pipe"
        assert self._process.stdout is not None, "it has a pipe"
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _call(self, message: object) -> object:
        self._send(message)
        assert self._process.stdout is not None, "it has a pipe"
        response = read_message(self._process.stdout)
        if isinstance(response, Failed):
            if response.code is None:
                raise RusloError(response.message)
            raise KafkaError(ErrorCode(response.code), response.message)
        if response is None and self._process.poll() is not None:
            raise self._ended()
        return response

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None, "it has a pipe"
        try:
            write_message(self._process.stdin, message)
        except BrokenPipeError:
            raise self._ended() from None

    def _ended(self) -> RusloError:
        return RusloError(
            "the process that holds the locks of the share group has ended: the reason is in the driver's "
            "output. Start the query again"
        )
