"""franz-go, the Go client, in a small program that the test builds; skipped without a Go toolchain."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from tests.interop.conftest import TopicMaker
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import USERS, add_scram_users, secured_node
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


def test_produce_and_consume_over_tls_with_scram(program: Path, tmp_path: Path) -> None:
    secured = secured_node(RusloNode, tmp_path)
    with secured.node:
        asyncio.run(add_scram_users(secured.addresses["PLAINTEXT"], ["admin"]))
        asyncio.run(create_topic(secured.addresses["PLAINTEXT"]))
        command = [str(program), secured.addresses["SASL_SSL"], "orders", "none", "100"]
        login = [str(secured.folder / "ca.pem"), "admin", USERS["admin"]]
        result = subprocess.run([*command, *login], capture_output=True, text=True, timeout=90)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["offsets"] == list(range(100))


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic("orders", 1, 1)])
