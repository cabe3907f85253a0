"""franz-go, the Go client, in a small program that the test builds; skipped without a Go toolchain."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import TopicMaker
from tests.support.tools.programs import require_tool

SOURCES = Path(__file__).with_name("franz_go")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = require_tool("go")
    program = tmp_path_factory.mktemp("franz-go") / "franz-go"
    command = [go, "build", "-o", str(program), "."]
    built = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(program: Path, bootstrap: str, new_topic: TopicMaker, codec: str) -> None:
    command = [str(program), bootstrap, new_topic(), codec, "1000"]

    result = subprocess.run(command, capture_output=True, text=True, timeout=90)

    assert result.returncode == 0, result.stderr
    read = json.loads(result.stdout)
    assert read["values"] == [f"value-{number}" for number in range(1000)]
    assert read["offsets"] == list(range(1000))
