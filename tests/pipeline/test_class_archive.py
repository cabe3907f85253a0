"""The class archive of Spark's JVM. It stays in the user's cache, so the other tests start Spark faster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ruslo.pipeline.class_archive import archive_path
from tests.pipeline.conftest import SHORT_LIVED_JAVA

START = """
import sys
from ruslo.pipeline.session import new_session

settings = {"spark.driver.extraJavaOptions": sys.argv[1], "spark.ui.enabled": "false"}
print(new_session("archived", "local[1]", settings).range(3).count())
"""


def start_spark(java_options: str, environment: dict[str, str] | None = None) -> str:
    """Start Spark in a process of its own and count three rows."""
    result = subprocess.run(
        [sys.executable, "-c", START, f"{SHORT_LIVED_JAVA} {java_options}"],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_spark_loads_its_classes_from_the_archive(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "ruslo.pipeline.class_archive"], capture_output=True, text=True, timeout=240
    )
    assert built.stdout.strip() == str(archive_path()), built.stderr
    loaded = tmp_path / "loaded"
    assert start_spark(f"-Xlog:class+load:file={loaded}") == "3"
    lines = [line for line in loaded.read_text().splitlines() if " org.apache.spark.sql." in line]
    archived = [line for line in lines if "shared objects file (top)" in line]
    assert len(archived) > len(lines) / 2


def test_spark_starts_with_a_damaged_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archive_path()
    assert archive is not None
    archive.write_bytes(b"not an archive")
    assert start_spark("", {"XDG_CACHE_HOME": str(tmp_path)}) == "3"
