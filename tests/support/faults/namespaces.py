"""Hosts for nodes: a network namespace each, with a router between them, and a small disk each.

- The thread that enters becomes the router. Its child processes run there too, so clients reach every host.
- The router blocks packets from one host to another by a rule that drops them without a reset or a refusal.
- A host exists as long as a process that waits for the end of its input, so nothing is left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Self

CLONE_NEWNET = 0x40000000
TOOLS = ("ip", "unshare", "nsenter", "mount")
BALLAST_BLOCK = 1 << 20


class NotPermitted(Exception):
    """This machine, or this user, cannot create namespaces."""


class Host:
    """A namespace for network and mounts; ``address`` is reached from the router and from the other hosts."""

    def __init__(self, number: int) -> None:
        self.address = f"10.77.{number}.2"
        self._gateway = f"10.77.{number}.1"
        self._link = f"host{number}"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", "echo up; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"up\n":
            raise NotPermitted("unshare --net --mount is not permitted here")
        self._connect()

    @property
    def prefix(self) -> list[str]:
        """The prefix of a command that runs on this host."""
        return ["nsenter", "-t", str(self._holder.pid), "--net", "--mount", "--"]

    def path(self, path: Path) -> Path:
        """The path under which the test finds this path of the host."""
        return Path(f"/proc/{self._holder.pid}/root") / path.relative_to("/")

    def mount_disk(self, at: Path, size_mb: int) -> None:
        at.mkdir(parents=True, exist_ok=True)
        _run(*self.prefix, "mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "disk", str(at))

    def fill_disk(self, at: Path) -> None:
        """Fill the disk to the last byte."""
        with self.path(at / "ballast").open("wb", buffering=0) as ballast:
            for block in (BALLAST_BLOCK, 4096, 1):
                try:
                    while ballast.write(bytes(block)) == block:
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free_disk(self, at: Path) -> None:
        self.path(at / "ballast").unlink()

    def close(self) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait(60)
        self._holder.stdout.close()

    def _connect(self) -> None:
        _run(*f"ip link add {self._link} type veth peer name eth0 netns {self._holder.pid}".split())
        _run(*f"ip address add {self._gateway}/30 dev {self._link}".split())
        _run(*f"ip link set {self._link} up".split())
        for command in (
            "ip link set lo up",
            f"ip address add {self.address}/30 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {self._gateway}",
        ):
            _run(*self.prefix, *command.split())


class Namespaces:
    """``with Namespaces(3) as hosts``: the calling thread is in the router's namespace until it leaves."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._blocked: list[tuple[str, str]] = []
        self._undo = contextlib.ExitStack()
        self.hosts: list[Host] = []

    def __enter__(self) -> Self:
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            raise NotPermitted(f"not installed: {', '.join(missing)}")
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._undo.callback(os.close, home)
        _system_call("unshare", CLONE_NEWNET)
        self._undo.callback(_system_call, "setns", home, CLONE_NEWNET)
        try:
            _run("ip", "link", "set", "lo", "up")
            # Namespaces of a process are seen at /proc/sys/net through the thread that opens it.
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            for number in range(1, self._count + 1):
                host = Host(number)
                self._undo.callback(host.close)
                self.hosts.append(host)
        except (OSError, subprocess.CalledProcessError) as error:
            self._undo.close()
            raise NotPermitted(str(error)) from error
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def block(self, senders: Iterable[Host], receivers: Iterable[Host]) -> None:
        """Drop the packets from the senders to the receivers."""
        for sender, receiver in product(list(senders), list(receivers)):
            _run("ip", "rule", "add", "from", sender.address, "to", receiver.address, "blackhole")
            self._blocked.append((sender.address, receiver.address))

    def heal(self) -> None:
        while self._blocked:
            sender, receiver = self._blocked.pop()
            _run("ip", "rule", "del", "from", sender, "to", receiver, "blackhole")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)


def _system_call(name: str, *arguments: int) -> None:
    """The os module has these two from Python 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        if number in (errno.EPERM, errno.ENOSYS, errno.EINVAL):
            raise NotPermitted(f"{name}: {os.strerror(number)}")
        raise OSError(number, os.strerror(number), name)
