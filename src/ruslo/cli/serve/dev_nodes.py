"""Runs the nodes of ``ruslo dev``: one in this process, several as child processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import LOG_FORMAT_KEY

if TYPE_CHECKING:
    from ruslo.cli.serve.secured_cluster import SecuredCluster
    from ruslo.config.broker import BrokerConfig
    from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
    from ruslo.testing.cluster_layout import NodePorts

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
METRICS_KEY = "ruslo.metrics.listener"
METRICS_PORT_OFFSET = 312


@dataclass(frozen=True, slots=True)
class DevOptions:
    brokers: int
    port: int
    """Of the first broker; 0 takes a free port."""
    folder: Path
    settings: Mapping[str, str]
    log_level: str


def run_open(options: DevOptions, announce: Callable[[str], None]) -> int:
    """Run brokers that everyone on this machine may use, until a signal; return the exit code."""
    if options.brokers > 1:
        return _run_processes(_cluster_properties(options, _ports(options)), (), options, announce)
    from ruslo.testing.cluster_layout import format_single_node, single_node_properties

    settings = {METRICS_KEY: _metrics_address(options.port), **options.settings}
    properties = single_node_properties(options.folder, port=options.port, overrides=settings)
    return _run_here(properties, format_single_node, options, announce)


def run_secured(options: DevOptions, announce: Callable[[str, SecuredCluster], None]) -> int:
    """Run brokers with TLS, users and ACLs, until a signal; return the exit code."""
    from ruslo.cli.serve.secured_cluster import SecuredCluster
    from ruslo.testing.cluster_layout import format_cluster

    _check_not_given(options)
    ports = _ports(options)
    secured = SecuredCluster(options.folder)
    nodes = [
        properties | secured.node_properties(at)
        for properties, at in zip(_cluster_properties(options, ports), ports, strict=True)
    ]

    def announce_secured(bootstrap: str) -> None:
        secured.write_client_files(bootstrap)
        announce(bootstrap, secured)

    def format_node(config: BrokerConfig) -> None:
        format_cluster([config], users=secured.scram_users())

    if len(nodes) == 1:
        return _run_here(nodes[0], format_node, options, announce_secured)
    return _run_processes(nodes, secured.scram_users(), options, announce_secured)


def bind_error(port: int) -> OSError | None:
    """The error of listening on the port, if any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error
    return None


def _run_here(
    properties: Mapping[str, str],
    format_node: Callable[[BrokerConfig], None],
    options: DevOptions,
    announce: Callable[[str], None],
) -> int:
    from ruslo.broker.node.garbage import collection_disabled

    with collection_disabled():
        from ruslo.broker.node.node import run
    from ruslo.broker.node.log_lines import log_to_stderr
    from ruslo.config.broker import BrokerConfig

    config = BrokerConfig.from_properties(properties)
    log_to_stderr(options.log_level, config.str(LOG_FORMAT_KEY))
    format_node(config)
    return run(config, lambda node: announce(node.bootstrap))


def _run_processes(
    nodes: Sequence[Mapping[str, str]],
    users: Sequence[UserScramCredentialRecord],
    options: DevOptions,
    announce: Callable[[str], None],
) -> int:
    from ruslo.cli.serve.node_processes import NodeProcesses
    from ruslo.config.broker import BrokerConfig
    from ruslo.testing.cluster_layout import format_cluster

    format_cluster([BrokerConfig.from_properties(each) for each in nodes], users=users)
    return NodeProcesses(nodes, options.log_level).run(lambda addresses: announce(",".join(addresses)))


def _ports(options: DevOptions) -> list[NodePorts]:
    from ruslo.testing.cluster_layout import NodePorts
    from ruslo.testing.ports import reserve_ports

    count, first = options.brokers, options.port
    broker_ports = list(range(first, first + count)) if first else reserve_ports(count)
    return [NodePorts(*each) for each in zip(broker_ports, reserve_ports(count), strict=True)]


def _cluster_properties(options: DevOptions, ports: list[NodePorts]) -> list[dict[str, str]]:
    from ruslo.testing.cluster_layout import cluster_properties

    properties = cluster_properties(options.folder, ports, overrides=options.settings)
    return [
        {**each, METRICS_KEY: _metrics_address(at.broker if options.port else 0), **options.settings}
        for each, at in zip(properties, ports, strict=True)
    ]


def _check_not_given(options: DevOptions) -> None:
    """The files of the clients would not fit other listeners or users."""
    from ruslo.cli.serve.secured_properties import security_properties
    from ruslo.model.secret import Secret
    from ruslo.testing.cluster_layout import NodePorts

    own = security_properties(options.folder, NodePorts(0, 0), Secret(""), Secret(""))
    clash = next((name for name in options.settings if name in own), None)
    if clash is not None:
        raise click.UsageError(
            f"--secure sets {clash} itself. Remove --set {clash}, or write a property file for 'ruslo serve'."
        )


def _metrics_address(broker_port: int) -> str:
    """Port 9404 for broker port 9092, as with ``ruslo serve``; a free port if that one is in use."""
    port = broker_port + METRICS_PORT_OFFSET if broker_port else 0
    if port > LAST_PORT or bind_error(port) is not None:
        port = 0
    return f"{LOOPBACK}:{port}"
