from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline import java
from ruslo.pipeline.java import find_java_home


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the Java of this machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "_JVM_FOLDERS", (str(tmp_path / "jvm"),))


def install(home: Path, version: str, *, release_file: bool = True) -> Path:
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    command.chmod(0o755)
    if release_file:
        (home / "release").write_text(f'IMPLEMENTOR="Vendor"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_before_the_path_and_the_path_before_the_usual_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = install(tmp_path / "jvm" / "java-21", "21.0.2")
    assert find_java_home() == usual
    on_path = install(tmp_path / "on-path", "17.0.15")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert find_java_home() == on_path
    chosen = install(tmp_path / "chosen", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert find_java_home() == chosen


def test_an_unsupported_java_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "eight", "1.8.0_402")))
    install(tmp_path / "jvm" / "java-25", "25")
    good = install(tmp_path / "jvm" / "java-9-to-17", "17.0.1", release_file=False)
    assert find_java_home() == good


def test_without_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs Java 17 or 21, but none was found: install one") as raised:
        find_java_home()
    assert "openjdk-17-jre-headless" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_unsupported_java_is_named(tmp_path: Path) -> None:
    old = install(tmp_path / "jvm" / "java-11", "11.0.2")
    with pytest.raises(ConfigError, match=f"but Java 11 in {old} was found"):
        find_java_home()
