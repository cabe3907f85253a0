"""The files in deploy: the commands and properties in them exist, and the nodes start."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import yaml

from ruslo.config.broker import BrokerConfig
from ruslo.config.properties import parse_properties
from tests.docs.blocks import ROOT
from tests.docs.console import check_usage
from tests.docs.programs import check_properties
from tests.support.network.ports import free_port

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "docker/Dockerfile").read_text()
START = DEPLOY / "docker/start.sh"
METRICS_PORT = 9404


def shim(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def with_path(folder: Path, **environment: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **environment}


# -- containers ----------------------------------------------------------------------------------------------


def test_the_image_copies_existing_files_and_runs_without_privileges() -> None:
    for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
    assert re.search(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.findall(r"^COPY --from=(\S+)", last, re.MULTILINE) == ["build"]
    assert "apt-get" not in last, "what builds it stays behind"
    assert f"http://127.0.0.1:{METRICS_PORT}/health/ready" in DOCKERFILE
    pinned = re.search(r"^uv==\S+", (ROOT / "requirements/dev.lock").read_text(), re.MULTILINE)
    assert pinned is not None, "the image takes uv in the version of the lock file"


def test_the_ignore_file_includes_the_files_of_the_image() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert rules[1] == "*", "a working copy holds much that is not for an image"
    let_through = {rule[1:] for rule in rules if rule.startswith("!")}
    for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert any(source == each or source.startswith(f"{each}/") for each in let_through), source
    assert "src/ruslo/console/static/vendor" in rules, "a build of its own brings them, pinned"
    assert "RUN python scripts/console_assets.py\n" in DOCKERFILE


PROPERTY_FILES = [
    "deploy/docker/server.properties",
    "deploy/systemd/server.properties",
    "examples/server.properties",
]


@pytest.mark.parametrize("name", PROPERTY_FILES)
def test_property_files_have_only_properties_with_an_effect(name: str) -> None:
    check_properties((ROOT / name).read_text())


def test_the_commands_of_the_start_script_exist() -> None:
    lines = re.findall(r"^\s*(?:exec )?ruslo (.+)$", START.read_text(), re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        words = [word for word in shlex.split(line) if word != "$@"]
        real = {"$config": str(START), "${RUSLO_LOG_FORMAT:-json}": "json"}
        check_usage([real.get(word, word) for word in words])


def test_the_start_script_runs_a_node_that_keeps_its_data_and_stops_cleanly(tmp_path: Path) -> None:
    shim(tmp_path / "bin", "ruslo", f'exec {shlex.quote(sys.executable)} -m ruslo.cli "$@"')
    broker, metrics = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:0",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "log.dirs": str(tmp_path / "data"),
        "ruslo.metrics.listener": f"127.0.0.1:{metrics}",
    }
    arguments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    environment = with_path(
        tmp_path / "bin", RUSLO_CONFIG=str(DEPLOY / "docker/server.properties"), PYTHONPATH=str(ROOT / "src")
    )
    ids = set()
    for _ in range(2):
        process = subprocess.Popen(
            ["sh", str(START), *arguments], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            wait_until_ready(f"http://127.0.0.1:{metrics}/health/ready", process)
        finally:
            process.send_signal(signal.SIGTERM)
            output, log = process.communicate(timeout=60)
        assert process.returncode == 0, log.decode()
        lines = [json.loads(line) for line in log.decode().splitlines() if line.startswith("{")]
        assert {line["node_id"] for line in lines} == {1}, output
        ids |= set(re.findall(r"cluster\.id=(\S+)", (tmp_path / "data/meta.properties").read_text()))
    assert len(ids) == 1, "the second start found the first one's directory"


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30):
                return
        except URLError:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline_s, "the node does not get ready"
            time.sleep(0.1)


def test_the_brokers_of_the_compose_file_are_one_cluster() -> None:
    compose = yaml.safe_load((DEPLOY / "docker/compose.yaml").read_text())
    base = parse_properties((DEPLOY / "docker/server.properties").read_text())
    brokers = {name: each for name, each in compose["services"].items() if name.startswith("broker")}
    configs = {}
    for name, service in brokers.items():
        check_usage(["serve", "-c", str(DEPLOY / "docker/server.properties"), *service["command"]])
        overrides = dict(word.removeprefix("--set=").split("=", 1) for word in service["command"])
        config = configs[name] = BrokerConfig.from_properties(base | overrides)
        assert not config.report().unknown
        assert f"{config.node_id}@{name}:9093" in overrides["controller.quorum.voters"].split(",")
        published = {mapping.split(":")[-1] for mapping in service["ports"]}
        external = next(each for each in config.broker_listeners if each.listener_name == "EXTERNAL")
        assert published == {str(external.port), str(METRICS_PORT)}
        assert service["volumes"] == [f"{name}:{base['log.dirs']}"]
        assert all(mapping.startswith("127.0.0.1:") for mapping in service["ports"]), "there is no TLS"
    assert {config.node_id for config in configs.values()} == {1, 2, 3}
    assert set(compose["volumes"]) == set(brokers)
    assert all(config.int("min.insync.replicas") == 2 for config in configs.values())


def test_compose_builds_its_image_once() -> None:
    compose = yaml.safe_load((DEPLOY / "docker/compose.yaml").read_text())
    services = compose["services"].values()
    assert len([each for each in services if "build" in each]) == 1, "builds side by side fail over the name"
    assert len({each["image"] for each in services}) == 1


def test_other_services_of_the_compose_file_run_existing_commands() -> None:
    compose = yaml.safe_load((DEPLOY / "docker/compose.yaml").read_text())
    for name, service in compose["services"].items():
        if not name.startswith("broker"):
            assert service["entrypoint"] == ["ruslo"], name
            check_usage(service["command"])


# -- systemd -------------------------------------------------------------------------------------------------


def test_the_unit_runs_an_existing_command_with_a_writable_log_directory() -> None:
    lines = (DEPLOY / "systemd/ruslo.service").read_text().splitlines()
    unit = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    program, *arguments = unit["ExecStart"].split()
    assert program.endswith("/ruslo")
    check_usage(arguments)
    properties = parse_properties((DEPLOY / "systemd/server.properties").read_text())
    assert properties["log.dirs"] == f"/var/lib/{unit['StateDirectory']}"
    assert int(unit["LimitNOFILE"]) >= 100_000
    assert unit["ProtectSystem"] == "strict"


# -- Kubernetes ----------------------------------------------------------------------------------------------

MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes/ruslo.yaml").read_text()))


def manifest(kind: str, name: str = "ruslo") -> dict[str, Any]:
    return next(each for each in MANIFESTS if each["kind"] == kind and each["metadata"]["name"] == name)


def test_probes_ports_and_selectors_match() -> None:
    spec = manifest("StatefulSet")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == METRICS_PORT
    for probe, path in (("livenessProbe", "/health/live"), ("readinessProbe", "/health/ready")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    for service in (each for each in MANIFESTS if each["kind"] == "Service"):
        assert service["spec"]["selector"] == labels
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= set(ports)
    headless = manifest("Service", spec["serviceName"])
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    uid = re.search(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)
    assert uid is not None
    assert spec["template"]["spec"]["securityContext"]["runAsUser"] == int(uid[1])


VOTERS = 3


def pod_settings(folder: Path, ordinal: int) -> dict[str, str]:
    """The properties that the script of the manifests gives to the pod with this ordinal."""
    data = manifest("ConfigMap")["data"]
    folder.mkdir(exist_ok=True)
    config = folder / "server.properties"
    config.write_text(data["server.properties"])
    shim(folder, "hostname", f"echo ruslo-{ordinal}")
    shim(folder, "python", "echo zone-b")
    shim(folder, "ruslo-start", 'for each in "$@"; do echo "$each"; done')
    told = subprocess.run(
        ["sh", "-c", data["start.sh"]],
        env=with_path(folder, NAMESPACE="ruslo", RUSLO_CONFIG=str(config)),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(told[::2]) == {"--set"}
    overrides = dict(each.split("=", 1) for each in told[1::2])
    return parse_properties(data["server.properties"]) | overrides


@pytest.mark.parametrize("ordinal", [0, 1, 2, 3, 9, 11, 20])
def test_each_pod_is_a_node_with_an_id_an_address_and_the_zone_as_rack(tmp_path: Path, ordinal: int) -> None:
    """The ID of a broker can start with the digit of a voter: 12, 21."""
    settings = pod_settings(tmp_path / "pod", ordinal)
    config = BrokerConfig.from_properties(settings)
    report = config.report()
    assert not report.unknown
    assert not report.without_effect
    assert config.node_id == ordinal + 1
    assert config.opt_str("broker.rack") == "zone-b"
    assert f"ruslo-{ordinal}.ruslo-brokers.ruslo.svc:9092" in settings["advertised.listeners"]
    voter = f"{config.node_id}@ruslo-{ordinal}.ruslo-brokers:9093"
    is_voter = voter in config.list("controller.quorum.voters")
    assert is_voter == (ordinal < VOTERS)
    assert set(config.list("process.roles")) == ({"broker", "controller"} if is_voter else {"broker"})
    assert ("CONTROLLER" in settings["listeners"]) == is_voter
    assert manifest("StatefulSet")["spec"]["replicas"] == VOTERS


class Pods:
    """Runs pods as processes: with settings and commands of the manifests, on loopback ports."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shim(folder / "bin", "ruslo", f'exec {shlex.quote(sys.executable)} -m ruslo.cli "$@"')
        spec = manifest("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
        (cluster_id,) = [each["value"] for each in spec["env"] if each["name"] == "RUSLO_CLUSTER_ID"]
        self._environment = {"RUSLO_CLUSTER_ID": cluster_id, "PYTHONPATH": str(ROOT / "src")}
        self._ports = {(ordinal, port): free_port() for ordinal in range(4) for port in (9092, 9093, 9404)}
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *ordinals: int) -> None:
        for ordinal in ordinals:
            settings = pod_settings(self._folder / str(ordinal), ordinal)
            settings["log.dirs"] = str(self._folder / f"data-{ordinal}")
            config = self._folder / f"{ordinal}.properties"
            lines = (f"{key}={self._on_loopback(value, ordinal)}" for key, value in settings.items())
            config.write_text("\n".join(lines))
            self._running[ordinal] = subprocess.Popen(
                ["sh", str(START)],
                env=with_path(self._folder / "bin", RUSLO_CONFIG=str(config), **self._environment),
                stderr=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        for ordinal in ordinals:
            url = f"http://127.0.0.1:{self._ports[ordinal, 9404]}/health/ready"
            wait_until_ready(url, self._running[ordinal])

    def _on_loopback(self, value: str, own: int) -> str:
        def replaced(found: re.Match[str]) -> str:
            ordinal = own if found["ordinal"] is None else int(found["ordinal"])
            return f"127.0.0.1:{self._ports[ordinal, int(found['port'])]}"

        name = r"(?:ruslo-(?P<ordinal>\d+)\.ruslo-brokers(?:\.ruslo\.svc)?|0\.0\.0\.0|(?<=//))"
        return re.sub(name + r":(?P<port>\d+)", replaced, value)

    def stop(self, *ordinals: int) -> None:
        for ordinal in ordinals:
            self._running[ordinal].send_signal(signal.SIGTERM)
        for ordinal in ordinals:
            process = self._running.pop(ordinal)
            _, log = process.communicate(timeout=60)
            assert process.returncode == 0, log.decode()

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()

    def ask(self, *command: str) -> Any:
        answer = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruslo.cli",
                *command,
                "-b",
                f"127.0.0.1:{self._ports[0, 9092]}",
                "-o",
                "json",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert answer.returncode == 0, answer.stderr + answer.stdout
        return json.loads(answer.stdout)


def test_brokers_beyond_the_voters_can_be_added_and_removed(tmp_path: Path) -> None:
    pods = Pods(tmp_path)
    try:
        pods.start(0, 1, 2)
        pods.start(3)
        assert pods.ask("cluster", "health", "--wait", "60")["healthy"]
        assert {each["id"] for each in pods.ask("cluster", "brokers")} == {1, 2, 3, 4}
        assert {each["id"] for each in pods.ask("cluster", "voter", "list")} == {1, 2, 3}
        pods.stop(3)
        pods.start(3)
        assert {each["id"] for each in pods.ask("cluster", "brokers")} == {1, 2, 3, 4}
        pods.stop(3)
        pods.ask("cluster", "broker", "unregister", "4", "--yes")
        assert pods.ask("cluster", "health", "--wait", "60")["healthy"]
        assert {each["id"] for each in pods.ask("cluster", "brokers")} == {1, 2, 3}
    finally:
        pods.kill()


class Api(BaseHTTPRequestHandler):
    """The part of the API server that the script uses: two machines, one without a zone."""

    def do_GET(self) -> None:
        labels = {"topology.kubernetes.io/zone": "eu-1a"} if self.path.endswith("/with-zone") else {}
        body = json.dumps({"metadata": {"labels": labels}}).encode()
        self.send_response(200 if self.path.startswith("/api/v1/nodes/") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Do not log requests."""


@pytest.fixture
def api() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("machine", "rack"), [("with-zone", "eu-1a"), ("without", "without")])
def test_the_rack_is_the_zone_of_the_machine(api: str, machine: str, rack: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", manifest("ConfigMap")["data"]["zone.py"]],
        env={**os.environ, "KUBERNETES_API": api, "NODE_NAME": machine},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == f"{rack}\n"
