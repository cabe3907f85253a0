"""The responses of a broker that recovers its logs after a crash: only the progress of the recovery.

A client that requests anything else is disconnected: it must find another broker, and must not trust a broker
that does not know its partitions yet.
"""

from __future__ import annotations

import struct

from ruslo.model.errors import ErrorCode
from ruslo.net.connection import Connection
from ruslo.protocol.headers import read_request_header
from ruslo.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ruslo.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from ruslo.protocol.recovery_tag import VERSION, Recovery
from ruslo.storage.log_manager import LogManager

_REQUEST_START = struct.Struct(">hh")
_FRAME_HEAD = struct.Struct(">iix")
"""Size, correlation id and the empty tagged fields of a response header."""


class StartupResponses:
    def __init__(self, logs: LogManager, *, is_open: bool) -> None:
        """``is_open``: the node has no authorizer, so any client may know the progress."""
        self._logs = logs
        self._is_open = is_open

    def handle_frame(self, connection: Connection, buf: bytearray, start: int, end: int) -> bool:
        api = _REQUEST_START.unpack_from(buf, start) if end - start >= _REQUEST_START.size else None
        if api != (DescribeLogDirsRequest.API_KEY, VERSION) or not self._is_open:
            connection.close()
            return True
        header, _ = read_request_header(bytes(buf[start:end]), 0)
        out = bytearray(_FRAME_HEAD.size)
        self._describe().write(out, VERSION)
        _FRAME_HEAD.pack_into(out, 0, len(out) - 4, header.correlation_id)
        connection.send(out)
        return True

    def refuse(self, connection: Connection, buf: bytearray, start: int, end: int) -> bool:
        """The handler of SASL listeners: clients cannot authenticate yet."""
        connection.close()
        return True

    def _describe(self) -> DescribeLogDirsResponse:
        results = []
        for directory in self._logs.directories:
            if not directory.holds_partitions:
                continue
            progress = directory.recovery
            recovery = Recovery(
                progress.logs_done, progress.logs_total, progress.segments_done, progress.segments_total
            )
            results.append(
                DescribeLogDirsResult(
                    error_code=ErrorCode.NONE if directory.online else ErrorCode.KAFKA_STORAGE_ERROR,
                    log_dir=directory.path,
                    unknown_tags=recovery.as_tags(),
                )
            )
        return DescribeLogDirsResponse(results=results)
