from __future__ import annotations

import subprocess
import sys

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.session import is_local, is_session_setting, new_session
from tests.support.network.ports import free_port


@pytest.mark.parametrize(
    "module",
    ["ruslo.broker.node.node", "ruslo.cli.main", "ruslo.testing.embedded", "ruslo.client.admin.admin"],
)
def test_only_pipelines_load_spark(module: str) -> None:
    heavy = ("pyspark", "pyarrow", "numba", "numpy", "pandas")
    program = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[2,4]", True), ("spark://h:1", False), ("yarn", False)]
)
def test_local_masters(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_an_unreachable_connect_server_is_reported_at_once() -> None:
    address = f"sc://127.0.0.1:{free_port()}/;user_id=me"
    with pytest.raises(ConfigError, match=f"cannot connect to a Spark Connect server at {address} "):
        new_session("job", address)


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("spark.sql.session.timeZone", True),
        ("spark.sql.warehouse.dir", False),
        ("spark.executor.memory", False),
    ],
)
def test_settings_of_a_connect_client(name: str, belongs: bool) -> None:
    assert is_session_setting(name) is belongs


def test_a_failed_start_of_spark_is_one_message() -> None:
    """Runs in its own process: pyspark leaves the pipes of the Java process open."""
    program = "from ruslo.pipeline.session import new_session; new_session('test', 'lokal[1]')"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ruslo.model.errors.ConfigError: Spark did not start on lokal[1]: "), result.stderr
    assert "check the master" in last
