"""Set up a working copy: virtual environment, pinned packages, the project, and system packages for tests.

    python3 scripts/bootstrap.py runtime     for `make demo`
    python3 scripts/bootstrap.py dev         for `make test`, `make check` and `make bench`

The script needs only the standard library of the system's Python. A second run finds a stamp file and returns
at once. Both profiles include Spark, which needs Java 17 or 21.
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
    """A Debian package, its purpose, and a check whether it or a replacement is installed."""

    name: str
    purpose: str
    is_present: Callable[[], bool]
    successor: str | None = None
    """The package in releases that do not have this one."""


def _has_command(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _has_java_for_spark() -> bool:
    sys.path.insert(0, str(ROOT / "src"))
    from ruslo.model.errors import ConfigError
    from ruslo.pipeline.java import find_java_home  # imports only the standard library

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
    SystemPackage("npm", "fetches htmx and uPlot for the console", _has_command("npm")),
    SystemPackage("chromium", "tests of the console in a real browser", _has_command("chromium")),
    SystemPackage("kcat", "interop tests with kcat", _has_command("kcat")),
    SystemPackage("openssl", "certificates for tests of TLS clients", _has_command("openssl")),
    SystemPackage("krb5-kdc", "tests of Kerberos logins", Path("/usr/sbin/krb5kdc").exists),
    SystemPackage("krb5-admin-server", "tests of Kerberos logins", _has_command("kadmin.local")),
    SystemPackage("krb5-user", "tests of Kerberos logins", _has_command("kinit")),
    SystemPackage("libkrb5-dev", "builds the library of Kerberos logins", _has_command("krb5-config")),
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
        fail(f"Python {sys.version.split()[0]} is older than 3.11: set PYTHON=/path/to/python3")
    if not is_installed(profile):
        create_environment()
        install_python_packages(profile)
    if profile == "dev":
        install_system_packages(TEST_PACKAGES)
        if _has_command("krb5-config")() and not is_stamped("kerberos"):
            install_kerberos()
    install_system_packages(RUNTIME_PACKAGES, optional=True)
    fetch_console_assets()
    return 0


def set_up_digest(profile: str) -> str:
    """A digest of everything the environment depends on: lock files, pyproject.toml, this script, Python."""
    digest = hashlib.sha256(f"{ROOT} {sys.version}".encode())
    for path in (lock_file("build"), lock_file(profile), ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def lock_file(profile: str) -> Path:
    return ROOT / "requirements" / f"{profile}.lock"


def stamp_file(profile: str) -> Path:
    return VENV / f".ruslo-{profile}"


def is_installed(profile: str) -> bool:
    """True if this profile, or ``dev``, which contains it, is installed as locked."""
    return is_stamped(profile) or is_stamped("dev")


def is_stamped(profile: str) -> bool:
    return stamp_file(profile).exists() and stamp_file(profile).read_text() == set_up_digest(profile)


def create_environment() -> None:
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0
    ):
        return
    if importlib.util.find_spec("ensurepip") is None:  # Debian's python3 has no ensurepip
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if os.geteuid() != 0:
            fail(f"Python's venv module is incomplete: run `sudo apt-get install {package}` and try again")
        apt_install([package])
    say("creating .venv")
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(VENV)])


def install_python_packages(profile: str) -> None:
    say(f"installing the packages of requirements/{profile}.lock; the first run takes minutes")
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = [*pip, "--require-hashes", "--only-binary", ":all:"]
    # Pinned build backends are installed first, so builds download nothing.
    run([*pinned, "-r", str(lock_file("build"))])
    source = ["--no-build-isolation", *(option for name in SOURCE_ONLY for option in ("--no-binary", name))]
    run([*pinned, *source, "-r", str(lock_file(profile))])
    run([*pip, "--no-index", "--no-build-isolation", "--no-deps", "--editable", str(ROOT)])
    stamp_file(profile).write_text(set_up_digest(profile))


def install_kerberos() -> None:
    """The extra 'kerberos' is built against the Kerberos library of the system."""
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    build = ["--only-binary", ":all:", "--no-build-isolation", "--no-binary", "gssapi"]
    run([*pip, *build, "-r", str(lock_file("kerberos"))])
    stamp_file("kerberos").write_text(set_up_digest("kerberos"))


def install_system_packages(packages: list[SystemPackage], *, optional: bool = False) -> None:
    """Install packages with apt-get if possible; otherwise, or if ``optional`` and it fails, list them."""
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


def fetch_console_assets() -> None:
    """Fetch the browser libraries of the console, which also works without them."""
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
        fail(f"`{' '.join(command)}` exited with code {result.returncode}. See the output above")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def fail(text: str) -> NoReturn:
    print(f"setup: {text}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
