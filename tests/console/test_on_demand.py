"""The console on demand: it starts with the first connection and ends with its parent."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ruslo.cli.serve.client_files import write_console_file
from ruslo.console.on_demand import ConsoleOnDemand
from ruslo.console.serving import PortInUse
from ruslo.net.tls.development_ca import DevelopmentCa
from ruslo.testing import EmbeddedBroker


def console_processes() -> list[int]:
    """The console processes that this process started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if b"ruslo.console.process" in command and parent == _self():
                found.append(int(folder.name))
    return found


def _self() -> int:
    return int(Path("/proc/self").resolve().name)


def visit(address: str) -> str:
    with urllib.request.urlopen(f"{address}/alive", timeout=60) as response:
        return str(response.read().decode())


def keep_visiting(address: str) -> None:
    while True:
        visit(address)
        time.sleep(0.05)


def test_users_of_a_secured_cluster_log_in(tmp_path: Path) -> None:
    client_file = write_console_file(tmp_path, tmp_path / "ca.pem")
    (tmp_path / "ca.pem").write_text(DevelopmentCa.new().certificate)
    with ConsoleOnDemand("127.0.0.1:1", 0, client_file) as console:
        request = urllib.request.Request(console.address, headers={"Accept": "text/html"})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert 'name="user"' in response.read().decode()


def test_console_starts_on_demand_restarts_after_a_crash_and_ends_with_its_owner(
    broker: EmbeddedBroker,
) -> None:
    with ConsoleOnDemand(broker.bootstrap, 0) as console:
        assert console_processes() == []
        assert visit(console.address) == "alive\n"
        (first,) = console_processes()
        subprocess.run(["kill", "-9", str(first)], check=True)
        while first in console_processes():
            time.sleep(0.05)
        assert visit(console.address) == "alive\n"
        assert len(console_processes()) == 1
    assert console_processes() == []
    host, _, port = console.address.removeprefix("http://").partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_port_in_use_is_an_error_unless_any_port_is_allowed(broker: EmbeddedBroker) -> None:
    with ConsoleOnDemand(broker.bootstrap, 0) as console:
        port = int(console.address.rpartition(":")[2])
        with pytest.raises(PortInUse, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            ConsoleOnDemand(broker.bootstrap, port)
    with ConsoleOnDemand(broker.bootstrap) as one, ConsoleOnDemand(broker.bootstrap) as other:
        assert one.address != other.address


def test_killed_command_leaves_no_console(broker: EmbeddedBroker) -> None:
    code = (
        "import sys, time, urllib.request\n"
        "from ruslo.console.on_demand import ConsoleOnDemand\n"
        "console = ConsoleOnDemand(sys.argv[1], 0)\n"
        "urllib.request.urlopen(console.address + '/alive').read()\n"
        "print(console.address, flush=True)\n"
        "time.sleep(60)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, broker.bootstrap], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    address = owner.stdout.readline().strip()
    assert visit(address) == "alive\n"
    owner.kill()
    owner.communicate()
    with pytest.raises(OSError, match=r"refused|reset"):
        keep_visiting(address)
