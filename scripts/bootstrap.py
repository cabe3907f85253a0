"""Set up a working copy: virtual environment, pinned packages, the project itself, system packages for tests.

    python3 scripts/bootstrap.py runtime     what `make demo` needs
    python3 scripts/bootstrap.py dev         what `make test`, `make check` and `make bench` need

Runs with the system's Python and its standard library only. A second run finds a stamp and returns at once.
Spark comes with both, and with it the wish for Java 17 or 21.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OLDEST_PYTHON = (3, 11)
SOURCE_ONLY = ["pyspark"]
"""Packages that are published without a wheel."""


class SystemPackage(NamedTuple):
    """A Debian package, what it is for, and how to see that it (or a stand-in) is there."""

    name: str
    purpose: str
    is_present: Callable[[], bool]
    successor: str | None = None
    """What releases without the package have in its place."""


def _has_command(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _has_java_for_spark() -> bool:
    sys.path.insert(0, str(ROOT / "src"))
    from ruslo.model.errors import ConfigError
    from ruslo.pipeline.java import find_java_home  # nothing but the standard library, as this script

    try:
        find_java_home()
    except ConfigError:
        return False
    finally:
        sys.path.pop(0)
    return True


RUNTIME_PACKAGES = [
    SystemPackage(
        "openjdk-17-jre-headless",
        "Java 17 or 21, which Spark runs on",
        _has_java_for_spark,
        successor="openjdk-21-jre-headless",
    ),
]

TEST_PACKAGES = [
    SystemPackage(
        "default-jdk-headless", "Apache Kafka and its tools in interop tests", _has_command("javac")
    ),
    SystemPackage("maven", "downloads Apache Kafka for tests and benchmarks", _has_command("mvn")),
    SystemPackage("npm", "brings htmx and uPlot for the console", _has_command("npm")),
    SystemPackage("chromium", "tests of the console in a real browser", _has_command("chromium")),
    SystemPackage("kcat", "interop tests with kcat", _has_command("kcat")),
    SystemPackage("openssl", "certificates for tests of TLS clients", _has_command("openssl")),
    SystemPackage("gcc", "builds the load program of the benchmark", _has_command("gcc")),
    SystemPackage(
        "libc6-dev", "builds the load program of the benchmark", Path("/usr/include/stdio.h").exists
    ),
    SystemPackage(
        "librdkafka-dev",
        "the client library of the benchmark's load program",
        Path("/usr/include/librdkafka/rdkafka.h").exists,
    ),
]


def main(arguments: list[str]) -> int:
    if arguments not in (["runtime"], ["dev"]):
        print("usage: bootstrap.py runtime|dev", file=sys.stderr)
        return 2
    profile = arguments[0]
    if sys.version_info < OLDEST_PYTHON:
        fail(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: set PYTHON=/path/to/python3")
    if not is_installed(profile):
        create_environment()
        install_python_packages(profile)
    if profile == "dev":
        install_system_packages(TEST_PACKAGES)
    install_system_packages(RUNTIME_PACKAGES, optional=True)
    bring_console_assets()
    return 0


def set_up_digest(profile: str) -> str:
    """Changes whenever the environment would: the lock, the project's metadata, this script, the Python."""
    digest = hashlib.sha256(f"{ROOT} {sys.version}".encode())
    for path in (lock_file("build"), lock_file(profile), ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def lock_file(profile: str) -> Path:
    return ROOT / "requirements" / f"{profile}.lock"


def stamp_file(profile: str) -> Path:
    return VENV / f".ruslo-{profile}"


def is_installed(profile: str) -> bool:
    """Whether this profile, or the larger one that contains it, is already installed as the lock says."""
    return any(
        stamp_file(candidate).exists() and stamp_file(candidate).read_text() == set_up_digest(candidate)
        for candidate in {profile, "dev"}
    )


def create_environment() -> None:
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0
    ):
        return
    if importlib.util.find_spec("ensurepip") is None:  # Debian ships venv without pip in its bare python3
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if os.geteuid() != 0:
            fail(
                f"Python's venv module is incomplete here: run `sudo apt-get install {package}` and try again"
            )
        apt_install([package])
    say("creating .venv")
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(VENV)])


def install_python_packages(profile: str) -> None:
    say(f"installing the packages of requirements/{profile}.lock; the first time that takes minutes")
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = [*pip, "--require-hashes", "--only-binary", ":all:"]
    # Build backends are pinned as well and come first: what is built here resolves and downloads nothing.
    run([*pinned, "-r", str(lock_file("build"))])
    source = ["--no-build-isolation", *(option for name in SOURCE_ONLY for option in ("--no-binary", name))]
    run([*pinned, *source, "-r", str(lock_file(profile))])
    run([*pip, "--no-index", "--no-build-isolation", "--no-deps", "--editable", str(ROOT)])
    stamp_file(profile).write_text(set_up_digest(profile))


def install_system_packages(packages: list[SystemPackage], *, optional: bool = False) -> None:
    """What cannot be installed is named; unless it is ``optional``, a failing apt-get ends the set-up."""
    missing = [package for package in packages if not package.is_present()]
    if not missing:
        return
    if os.geteuid() == 0 and shutil.which("apt-get") is not None:
        try:
            apt_install([package.name for package in missing], {p.name: p.successor for p in missing})
            return
        except SystemExit:
            if not optional:
                raise
    for package in missing:
        say(f"missing: {package.name} ({package.purpose}); run `sudo apt-get install {package.name}`")


def bring_console_assets() -> None:
    """Plots and live pages of the console; where they cannot be had it works without."""
    sys.path.insert(0, str(ROOT))
    from scripts.console_assets import AssetsMissing, ensure_assets

    try:
        if ensure_assets():
            say("fetched htmx and uPlot for the console")
    except AssetsMissing as error:
        say(f"the console will have no plots: {error}")
    finally:
        sys.path.pop(0)


def apt_install(packages: list[str], successors: Mapping[str, str | None] | None = None) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    quiet = ["-qq", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=300"]
    run(["apt-get", *quiet, "update"], environment)
    for name, successor in (successors or {}).items():
        if successor is not None and not _apt_knows(name):
            packages = [successor if package == name else package for package in packages]
    say(f"installing with apt-get: {' '.join(packages)}")
    install = ["apt-get", *quiet, "install", "--yes", "--no-install-recommends", *packages]
    run(install, environment, stdout=subprocess.DEVNULL)


def _apt_knows(package: str) -> bool:
    found = subprocess.run(
        ["apt-cache", "show", package], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return found.returncode == 0


def run(command: list[str], environment: dict[str, str] | None = None, stdout: int | None = None) -> None:
    result = subprocess.run(command, env=environment, stdout=stdout)
    if result.returncode != 0:
        fail(f"`{' '.join(command)}` ended with code {result.returncode}; the lines above say why")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def fail(text: str) -> NoReturn:
    print(f"setup: {text}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
