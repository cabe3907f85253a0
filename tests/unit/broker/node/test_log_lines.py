"""Log lines as text and as JSON have the same content."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from ruslo.broker.node.log_lines import JSON, TEXT, new_handler
from ruslo.model.log_ids import log_ids
from tests.support.brokers.live_node import live_node
from tests.support.clients.raw_client import connected, frame

LOGGER = "ruslo.test.log_lines"


def written(log_format: str, node_id: int | None, message: str, **options: object) -> str:
    out = io.StringIO()
    logger = logging.getLogger(LOGGER)
    handler = new_handler(out, log_format, node_id)
    logger.addHandler(handler)
    try:
        logger.warning(message, "ann", **options)  # type: ignore[arg-type]
    finally:
        logger.removeHandler(handler)
    return out.getvalue()


def test_text_and_json_carry_the_same_ids() -> None:
    ids = log_ids(connection="10.0.0.7:4711", client_id=None, correlation_id=3)
    text = written(TEXT, 2, "%s is late", extra=ids)
    assert text.endswith(f"Z [2] WARNING {LOGGER}: ann is late (connection=10.0.0.7:4711 correlation_id=3)\n")
    line = json.loads(written(JSON, 2, "%s is late", extra=ids))
    time = line.pop("time")
    assert time.endswith("Z")
    assert line == {
        "level": "WARNING",
        "node_id": 2,
        "logger": LOGGER,
        "message": "ann is late",
        "connection": "10.0.0.7:4711",
        "correlation_id": 3,
    }


def test_line_without_ids_and_command_without_a_node() -> None:
    assert written(TEXT, None, "%s").endswith(f"Z WARNING {LOGGER}: ann\n")
    assert "node_id" not in json.loads(written(JSON, None, "%s"))


def test_an_id_of_a_client_does_not_begin_a_line() -> None:
    ids = log_ids(client_id="x\n2026-01-31T12:00:00.000Z INFO ruslo: forged\x1b[2J")
    text = written(TEXT, None, "%s", extra=ids)
    assert text.endswith(r"ann (client_id=x\x0a2026-01-31T12:00:00.000Z INFO ruslo: forged\x1b[2J)" + "\n")
    assert text.count("\n") == 1


def test_exception_stays_on_one_line_of_json() -> None:
    error = ValueError("two\nlines")
    text = written(JSON, 1, "%s\nfailed", exc_info=error)
    assert text.count("\n") == 1
    line = json.loads(text)
    assert line["message"] == "ann\nfailed"
    assert "ValueError: two\nlines" in line["exception"]
    assert "ValueError: two\nlines" in written(TEXT, 1, "%s failed", exc_info=error)


async def test_closed_connection_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        host, port = client.writer.get_extra_info("sockname")
        client.writer.write(frame(b"\x00\x63\x00\x00\x00\x00\x00\x07\xff\xff"))
        assert await client.reader.read() == b""
        (record,) = [each for each in caplog.records if each.name == "ruslo.net.server"]
        assert record.__dict__["ids"] == {"connection": f"{host}:{port}"}
        assert "API key 99 is not supported" in record.getMessage()
