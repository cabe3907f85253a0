"""A single node with both roles in its own process: what Apache Kafka and Ruslo have in common for tests."""

from __future__ import annotations

import base64
import signal
import subprocess
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from tests.support.network.ports import free_port, wait_for_metadata


def random_cluster_id() -> str:
    """A cluster id as Kafka's tools write them: 16 random bytes in URL-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # a leading dash would look like an option on a command line
            return text


class NodeHost(Protocol):
    """The host on which a node's process runs."""

    @property
    def address(self) -> str: ...
    @property
    def prefix(self) -> list[str]:
        """The prefix of a command that runs on the host."""
        ...

    def path(self, path: Path) -> Path:
        """The path under which the test finds this path of the node."""
        ...


class _LocalHost:
    """This host, with its loopback address."""

    address = "127.0.0.1"

    @property
    def prefix(self) -> list[str]:
        return []

    def path(self, path: Path) -> Path:
        return path


LOCAL_HOST = _LocalHost()


class Node(ABC):
    """A broker process on free ports, on this host by default.

    A directory without `meta.properties` is formatted first; one that either system has formatted is used as
    it is. `quorum` chooses between a voter set kept in the metadata log ("standalone") and one named in the
    properties ("static"). The process's output is `broker.log` in the directory.
    """

    name: str

    def __init__(
        self,
        directory: Path,
        *,
        data_dirs: Sequence[Path] | None = None,
        properties: Mapping[str, str] | None = None,
        quorum: Literal["standalone", "static"] = "standalone",
        cluster_id: str | None = None,
        node_id: int = 1,
        port: int | None = None,
        controller_port: int | None = None,
        host: NodeHost = LOCAL_HOST,
    ) -> None:
        self.directory = directory
        self.host = host
        self.data_dirs = list(data_dirs) if data_dirs is not None else [directory / "data"]
        self.quorum = quorum
        self.cluster_id = cluster_id or random_cluster_id()
        self.node_id = node_id
        self.port = port or free_port()
        self.controller_port = controller_port or free_port()
        self.log_file = directory / "broker.log"
        self.properties_file = directory / "server.properties"
        self.process: subprocess.Popen[bytes] | None = None
        self._extra_properties = dict(properties or {})
        self.format_options: tuple[str, ...] = ()
        """Options of the command that formats the data directories; both systems have the same."""

    @abstractmethod
    def format(self) -> None:
        """Write meta.properties and the first metadata into the data directories."""

    @abstractmethod
    def serve_command(self) -> list[str]:
        """The command line that runs the node in the foreground."""

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"{self.host.address}:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self.process is not None, "the node is not running"
        return self.process.pid

    def server_properties(self) -> dict[str, str]:
        """The node's properties; those of the caller override the defaults."""
        address = self.host.address
        controller = f"{address}:{self.controller_port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{address}:{self.port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{address}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": ",".join(str(path) for path in self.data_dirs),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "5",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.quorum == "static":
            properties["controller.quorum.voters"] = f"{self.node_id}@{controller}"
        else:
            properties["controller.quorum.bootstrap.servers"] = controller
        return properties | self._extra_properties

    def format_if_new(self) -> None:
        """Format the data directories unless one of them already belongs to a cluster."""
        self._write_properties()
        if not any(self.host.path(path / "meta.properties").exists() for path in self.data_dirs):
            self.format()

    def launch(self) -> None:
        """Start the process without waiting for it."""
        assert self.process is None, "the node is already running"
        self.format_if_new()
        with self.log_file.open("ab") as log:
            command = [*self.host.prefix, *self.serve_command()]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def start(self, timeout_s: float = 60) -> Self:
        """Start the process and return once the broker lists itself in a Metadata response."""
        self.launch()
        return self.wait_until_ready(timeout_s)

    def wait_until_ready(self, timeout_s: float = 60) -> Self:
        """Return once the broker lists itself in a Metadata response."""
        try:
            wait_for_metadata(self.host.address, self.port, self.process, timeout_s)
        except (RuntimeError, TimeoutError) as error:
            self.kill()
            raise RuntimeError(f"{self.name} did not start: {error}\n{self.log_tail()}") from error
        return self

    def stop(self, timeout_s: float = 60) -> None:
        """Stop the node with SIGTERM, so that it writes the clean-shutdown file."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL, 30)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the process's output."""
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start() if self.process is None else self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self, signal_number: signal.Signals, timeout_s: float) -> None:
        if self.process is None:
            return
        process, self.process = self.process, None
        process.send_signal(signal_number)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def _write_properties(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{key}={value}\n" for key, value in self.server_properties().items())
        self.properties_file.write_text(text)


def log_tails(nodes: Iterable[Node], lines: int) -> str:
    """The last lines of several nodes' output."""
    return "\n".join(f"--- node {node.node_id}\n{node.log_tail(lines)}" for node in nodes)
