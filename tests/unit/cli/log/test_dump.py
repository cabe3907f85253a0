from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord
from ruslo.protocol.metadata_records import encode_metadata_record
from ruslo.records.builder import build_batch
from ruslo.records.record import Record


def dump(*arguments: str) -> tuple[int, list[dict[str, object]], str]:
    result = CliRunner().invoke(cli, ["log", "dump", *arguments, "-o", "json"], catch_exceptions=False)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def write_log(path: Path, *records: Record) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build_batch(list(records)))
    return path


def test_batches_and_records(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "t-0" / "00000000000000000000.log",
        Record(0, 1000, b"k", b"text", (("h", b"\xff"), ("caf\udce9", None))),
        Record(1, 1001, None, b"\xfe"),
    )
    code, rows, _ = dump(str(path), "--records")
    assert code == 0
    batch, first, second = rows
    assert (batch["row"], batch["count"], batch["valid"]) == ("batch", 2, True)
    assert (first["key"], first["value"]) == ("k", "text")
    assert first["headers"] == [
        {"name": "h", "value_base64": "/w=="},
        {"name_base64": "Y2Fm6Q==", "value": None},
    ]
    assert (second["key"], second["value_base64"]) == (None, "/g==")
    text = CliRunner().invoke(cli, ["log", "dump", str(path)]).stdout
    assert text.startswith("batch base_offset=0 last_offset=1 count=2 ")


def test_metadata_records_are_printed_with_their_fields(tmp_path: Path) -> None:
    value = encode_metadata_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)
    path = write_log(
        tmp_path / "__cluster_metadata-0" / "00000000000000000000.log", Record(0, 1, None, value)
    )
    _, rows, _ = dump(str(path), "-r")
    assert rows[1]["type"] == "FeatureLevelRecord"
    assert rows[1]["fields"] == {"name": "metadata.version", "feature_level": 30}


def test_an_invalid_metadata_record_is_printed_as_bytes(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "__cluster_metadata-0" / "00000000000000000000.log", Record(0, 1, None, b"\x7f")
    )
    _, rows, _ = dump(str(path), "-r")
    assert rows[1]["value"] == "\x7f"
    assert rows[1]["problem"]


def test_damage_exits_with_1(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0" / "00000000000000000000.log", Record(0, 1000, None, b"value"))
    data = bytearray(path.read_bytes())
    path.write_bytes(data + b"torn")
    code, rows, error_text = dump(str(path))
    assert (code, rows[-1]["row"]) == (1, "rest")
    assert "4 bytes from position" in error_text
    data[-2] ^= 1
    path.write_bytes(data)
    code, rows, error_text = dump(str(path))
    assert (code, rows[0]["valid"]) == (1, False)
    assert "the batch at offset 0 has a wrong CRC" in error_text


def test_unknown_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    code, _, error_text = dump(str(path))
    assert code == 1
    assert "cannot be dumped" in error_text
