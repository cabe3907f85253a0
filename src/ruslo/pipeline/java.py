"""Finds a Java version that Spark supports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ruslo.model.errors import ConfigError

SUPPORTED = (17, 21)
_JVM_FOLDERS = ("/usr/lib/jvm", "/usr/java", "/opt/java", "/opt", "/Library/Java/JavaVirtualMachines")
_RELEASE_LINE = re.compile(r'^JAVA_VERSION="?(?:1\.)?(\d+)', re.MULTILINE)
_VERSION_OUTPUT = re.compile(r'version "(?:1\.)?(\d+)')


def find_java_home() -> Path:
    """The home of Java 17 or 21: from JAVA_HOME, the `java` on the path, or the usual folders."""
    seen: dict[Path, int | None] = {}
    for home in _candidates():
        if home not in seen:
            seen[home] = _major_version(home)
            if seen[home] in SUPPORTED:
                return home
    found = [f"Java {version} in {home}" for home, version in seen.items() if version is not None]
    raise ConfigError(
        f"Spark needs Java 17 or 21, but {' and '.join(found) if found else 'none'} was found: "
        "install one (Debian, Ubuntu: `sudo apt-get install openjdk-17-jre-headless`; macOS: "
        "`brew install openjdk@17`) or set JAVA_HOME"
    )


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]).resolve()
    command = shutil.which("java")
    if command is not None:
        yield Path(command).resolve().parent.parent
    for parent in map(Path, _JVM_FOLDERS):
        if parent.is_dir():
            for folder in sorted(parent.iterdir()):
                for home in (folder, folder / "Contents" / "Home"):
                    if (home / "bin" / "java").is_file():
                        yield home.resolve()


def _major_version(home: Path) -> int | None:
    """The version in the release file of a Java home, or in the output of ``java -version``."""
    release = home / "release"
    if release.is_file():
        named = _RELEASE_LINE.search(release.read_text(errors="replace"))
        if named is not None:
            return int(named[1])
    java = home / "bin" / "java"
    if not java.is_file():
        return None
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION_OUTPUT.search(result.stderr)
    return None if version is None else int(version[1])
