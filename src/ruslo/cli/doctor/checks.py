"""The checks of ``ruslo doctor``. They change nothing and need no network."""

from __future__ import annotations

import enum
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_GIB = 1024**3
_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "glusterfs", "ceph"}
)
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_PACKAGES = ("uvloop", "crc32c", "msgspec", "click", "confluent-kafka", "lz4", "zstandard", "cramjam")


class State(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    name: str
    state: State
    found: str
    fix: str | None = None


class Kernel(NamedTuple):
    """A setting under /proc/sys with its minimum or maximum and the reason."""

    name: str
    minimum: int | None
    maximum: int | None
    recommended: int
    reason: str


_KERNEL = (
    # Ruslo maps no files: the kernel's default is enough.
    Kernel(
        "vm.max_map_count",
        65_530,
        None,
        262_144,
        "Apache Kafka on the same data directories maps every index",
    ),
    Kernel("net.core.somaxconn", 1024, None, 4096, "connections wait in this queue during a burst"),
    Kernel("vm.swappiness", None, 10, 1, "a swapped-out broker stalls its clients"),
)


def examine(data_dir: Path, ports: Sequence[int]) -> list[Finding]:
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _packages,
        _java,
        _open_files,
        lambda: _disk(data_dir),
        lambda: _ports(ports),
        _clock,
        _kernel,
    )
    return [finding for check in checks for finding in check()]


def _python() -> Iterator[Finding]:
    found = f"{platform.python_implementation()} {platform.python_version()} on {platform.system()}"
    if sys.platform != "linux":
        fix = "run brokers on Linux; clients work here"
        yield Finding("python", State.WARNING, found, fix)
    else:
        yield Finding("python", State.OK, found)


def _packages() -> Iterator[Finding]:
    """Required packages that are not installed."""
    versions, missing = [], []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        fix = f"pip install {' '.join(missing)}"
        yield Finding("packages", State.PROBLEM, f"missing: {', '.join(missing)}", fix)
    else:
        yield Finding("packages", State.OK, ", ".join(versions))


def _java() -> Iterator[Finding]:
    command = java_command()
    needed = "needed only for pipelines on Spark"
    if command is None:
        yield Finding(
            "java", State.WARNING, f"not found ({needed})", "install a JDK 17 or 21, or set JAVA_HOME"
        )
        return
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("java", State.WARNING, f"{command} does not run: {error}", "check JAVA_HOME")
        return
    version = java_version(done.stderr + done.stdout)
    if version in (17, 21):
        yield Finding("java", State.OK, f"{version} ({command})")
    else:
        found = f"{version or 'unknown version'} ({command}, {needed})"
        yield Finding("java", State.WARNING, found, "install a JDK 17 or 21, or set JAVA_HOME to one")


def java_command() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def java_version(text: str) -> int | None:
    """17 of ``openjdk version "17.0.9"``, 8 of ``java version "1.8.0_392"``."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _open_files() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = f"{_limit(soft)} (hard limit {_limit(hard)})"
    why = "every segment and every connection of a broker is an open file"
    if soft == resource.RLIM_INFINITY or soft >= 65_536:
        yield Finding("open files", State.OK, shown)
        return
    state = State.PROBLEM if soft < 1024 else State.WARNING
    how = (
        "'ulimit -n 100000'"
        if hard == resource.RLIM_INFINITY or hard >= 100_000
        else "LimitNOFILE=100000 in its systemd unit"
    )
    yield Finding("open files", state, shown, f"raise it with {how}: {why}")


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value:,}"


def _disk(data_dir: Path) -> Iterator[Finding]:
    from ruslo.model.units import human_bytes

    existing = next(path for path in (data_dir.resolve(), *data_dir.resolve().parents) if path.exists())
    usage = shutil.disk_usage(existing)
    shown = f"{human_bytes(usage.free)} free of {human_bytes(usage.total)} at {existing}"
    if usage.free < _GIB:
        yield Finding("disk space", State.PROBLEM, shown, "free some space, or choose another --data-dir")
    elif usage.free < usage.total * 0.1:
        fix = (
            "lower retention.bytes or retention.ms, or add space: a full disk takes the log directory offline"
        )
        yield Finding("disk space", State.WARNING, shown, fix)
    else:
        yield Finding("disk space", State.OK, shown)
    if not os.access(existing, os.W_OK):
        fix = f"make {existing} writable for the user of the broker"
        yield Finding("data folder", State.PROBLEM, f"{existing} is not writable", fix)
    kind = file_system(existing, _text(_PROC / "self" / "mounts"))
    if kind in _NETWORK_FILE_SYSTEMS:
        fix = "use a local disk: locks and fsync are not reliable on a network file system"
        yield Finding("file system", State.PROBLEM, kind, fix)
    elif kind in _IN_MEMORY:
        yield Finding(
            "file system",
            State.WARNING,
            kind,
            "use a disk for durable data: this file system is lost at a reboot",
        )
    else:
        yield Finding("file system", State.OK, kind or "unknown")


def file_system(path: Path, mounts: str) -> str | None:
    """The type of the file system of a path, from the content of /proc/self/mounts."""
    best, kind = -1, None
    for line in mounts.splitlines():
        _, point, found, *_ = line.split()
        mount = Path(point.replace("\\040", " "))
        # The longest mount point applies; of equal ones, the later.
        if (mount == path or mount in path.parents) and len(mount.parts) >= best:
            best, kind = len(mount.parts), found
    return kind


def _ports(ports: Sequence[int]) -> Iterator[Finding]:
    for port in dict.fromkeys(ports):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except PermissionError:
                fix = "choose a port above 1023"
                yield Finding(f"port {port}", State.PROBLEM, "this user is not allowed to listen on it", fix)
            except OSError:
                fix = f"run 'ss -ltnp sport = :{port}' to see which process uses it"
                yield Finding(f"port {port}", State.WARNING, "in use by another process", fix)
            else:
                yield Finding(f"port {port}", State.OK, "free")


def _clock() -> Iterator[Finding]:
    """Timestamps and retention depend on a synchronized clock."""
    synchronized = clock_synchronized()
    if synchronized:
        yield Finding("clock", State.OK, "synchronized")
        return
    found = "synchronization is unknown" if synchronized is None else "not synchronized"
    fix = "run chrony or systemd-timesyncd: timestamps and retention depend on the clock"
    yield Finding("clock", State.WARNING, found, fix)


def clock_synchronized() -> bool | None:
    """True if adjtimex(2) reports a synchronized clock; None if unknown."""
    import ctypes

    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    # struct timex has about 200 bytes; all zero, it only queries. 5 is TIME_ERROR.
    state = adjtimex(ctypes.create_string_buffer(512))
    return None if state < 0 else state != 5


def _kernel() -> Iterator[Finding]:
    for setting in _KERNEL:
        text = _text(_PROC / "sys" / Path(*setting.name.split("."))).strip()
        if not text.isdecimal():
            yield Finding(setting.name, State.OK, "does not exist on this system")
            continue
        value = int(text)
        low = setting.minimum is not None and value < setting.minimum
        high = setting.maximum is not None and value > setting.maximum
        if low or high:
            fix = f"sysctl -w {setting.name}={setting.recommended} (and in /etc/sysctl.d): {setting.reason}"
            yield Finding(setting.name, State.WARNING, str(value), fix)
        else:
            yield Finding(setting.name, State.OK, str(value))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
