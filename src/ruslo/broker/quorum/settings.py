"""Builds the raft machine and the settings of its connections from the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ruslo.broker.quorum.peers import PeerSettings
from ruslo.config.broker import BrokerConfig
from ruslo.machines.raft.log_view import LogView
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.machines.raft.rpc import ReplicaKey
from ruslo.machines.raft.settings import RaftSettings
from ruslo.machines.raft.voters import Endpoint, VoterSet

_FIRST_BOOTSTRAP_ID = -2
"""The first of the ids, counting down, of bootstrap addresses whose node id is unknown."""


def new_machine(
    config: BrokerConfig,
    key: ReplicaKey,
    endpoints: tuple[Endpoint, ...],
    random: Random,
    *,
    quorum: QuorumState,
    log: LogView,
) -> RaftMachine:
    return RaftMachine(
        key=key,
        endpoints=endpoints,
        static_voters=static_voters(config),
        bootstrap=bootstrap_servers(config, endpoints),
        quorum=quorum,
        log=log,
        settings=raft_settings(config),
        random=random,
    )


def raft_settings(config: BrokerConfig) -> RaftSettings:
    return RaftSettings(
        election_timeout_ms=config.int("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=config.int("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=config.int("controller.quorum.fetch.timeout.ms"),
        retry_backoff_ms=config.int("controller.quorum.retry.backoff.ms"),
        may_vote=config.is_controller,
        auto_join=config.bool("controller.quorum.auto.join.enable"),
    )


def peer_settings(config: BrokerConfig, cluster_id: str) -> PeerSettings:
    return PeerSettings(
        cluster_id=cluster_id,
        client_id=f"raft-client-{config.node_id}",
        request_timeout_ms=config.int("controller.quorum.request.timeout.ms"),
        fetch_max_bytes=config.int("controller.quorum.fetch.max.bytes"),
        snapshot_max_bytes=config.int("controller.quorum.fetch.snapshot.max.bytes"),
    )


def static_voters(config: BrokerConfig) -> VoterSet | None:
    addresses = config.quorum_voters
    return VoterSet.static(addresses, config.controller_listener_names[0]) if addresses else None


def bootstrap_servers(config: BrokerConfig, own: Sequence[Endpoint]) -> dict[int, Endpoint]:
    """Addresses to find the leader at while the voters are unknown, except this node's own."""
    own_addresses = {(at.host, at.port) for at in own}
    listener = config.controller_listener_names[0]
    others = [at for at in config.quorum_bootstrap_servers if (at.host, at.port) not in own_addresses]
    return {
        _FIRST_BOOTSTRAP_ID - index: Endpoint(listener, at.host, at.port) for index, at in enumerate(others)
    }
