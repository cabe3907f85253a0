"""The log of a node: one line per event on stderr, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from ruslo.model.log_ids import IDS, one_line

TEXT, JSON = "text", "json"
_SECONDS = "%Y-%m-%dT%H:%M:%S"


def log_to_stderr(level: str, log_format: str = TEXT, node_id: int | None = None) -> None:
    """``node_id``: included in every line, because several nodes may share a terminal."""
    logging.basicConfig(level=level.upper(), handlers=[new_handler(sys.stderr, log_format, node_id)])


def new_handler(stream: TextIO, log_format: str, node_id: int | None) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(node_id) if log_format == JSON else TextLines(node_id))
    return handler


class TextLines(logging.Formatter):
    """``2026-01-31T12:00:00.000Z [1] INFO ruslo.broker.node.node: message (connection=10.0.0.7:4711)``."""

    def __init__(self, node_id: int | None) -> None:
        node = "" if node_id is None else f"[{node_id}] "
        super().__init__(f"%(asctime)s.%(msecs)03dZ {node}%(levelname)s %(name)s: %(message)s", _SECONDS)
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        ids = _ids_of(record)
        if not ids:
            return line
        return f"{line} ({' '.join(f'{name}={one_line(str(value))}' for name, value in ids.items())})"


class JsonLines(logging.Formatter):
    """One JSON object per line; ``exception`` contains a traceback."""

    def __init__(self, node_id: int | None) -> None:
        super().__init__(datefmt=_SECONDS)
        self.converter = time.gmtime
        self._node = {} if node_id is None else {"node_id": node_id}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": f"{self.formatTime(record, _SECONDS)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            **self._node,
            "logger": record.name,
            "message": record.getMessage(),
            **_ids_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _ids_of(record: logging.LogRecord) -> Mapping[str, object]:
    ids: Mapping[str, object] = getattr(record, IDS, {})
    return ids
