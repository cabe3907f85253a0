"""Rules over several broker configs.

Each rule yields the problems it finds; ``broken_rules`` runs them all, so one start reports every mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ruslo.config.definition import ConfigProblem, InvalidConfig
from ruslo.config.keys.broker import BROKER
from ruslo.config.keys.group import GROUP, bounds
from ruslo.config.listeners import METRICS_LISTENER_NAME
from ruslo.config.validators import word_list

if TYPE_CHECKING:
    from ruslo.config.broker import BrokerConfig

_MIB = 1 << 20
Problem: TypeAlias = tuple[str, str, str]
"""Property, reason and fix."""


def broken_rules(config: BrokerConfig) -> Iterator[ConfigProblem]:
    """Problems of configs that are valid one by one but do not fit together."""
    try:
        # The rules below need these, which are parsed on first use.
        _ = config.security_protocols, config.listeners, config.declared_advertised
        _ = config.connection_overrides_per_ip, config.super_users
    except InvalidConfig as error:
        yield from error.problems
        return
    for rule in (_node, _quorum, _listeners, _advertised, _connections, _logs, _replication, _groups):
        for key, reason, fix in rule(config):
            yield ConfigProblem(key, BROKER[key].format(config.get(key)) or None, reason, fix)


def warnings(config: BrokerConfig) -> list[str]:
    """Configs that are valid but may not do what the user expects."""
    found: list[str] = []
    heartbeat_ms, session_ms = (
        config.int("broker.heartbeat.interval.ms"),
        config.int("broker.session.timeout.ms"),
    )
    if heartbeat_ms * 2 > session_ms:
        found.append(
            f"broker.heartbeat.interval.ms={heartbeat_ms} is more than half of broker.session.timeout.ms="
            f"{session_ms}, so one lost heartbeat fences the broker. Lower the first or raise the second."
        )
    client_auth = config.str("ssl.client.auth")
    for each in config.listeners:
        own = f"listener.name.{each.listener_name.lower()}.ssl.client.auth"
        if client_auth != "none" and each.security_protocol == "SASL_SSL" and not config.is_set(own):
            found.append(
                f"ssl.client.auth={client_auth} does not apply to the listener {each.listener_name}, whose "
                f"protocol is SASL_SSL. Set {own} if its clients need certificates, too."
            )
    return found


def _node(config: BrokerConfig) -> Iterator[Problem]:
    if config.int("broker.id") != config.node_id:
        yield ("broker.id", f"it differs from node.id={config.node_id}", "remove the line broker.id")


def _quorum(config: BrokerConfig) -> Iterator[Problem]:
    voters = config.quorum_voters
    if not voters and not config.quorum_bootstrap_servers:
        yield (
            "controller.quorum.bootstrap.servers",
            "the node does not know where the controllers are",
            "set it to host:port of the controllers, or set controller.quorum.voters",
        )
    if config.is_controller and voters and config.node_id not in voters:
        yield (
            "controller.quorum.voters",
            f"this controller (node.id={config.node_id}) is not among the voters",
            f"add {config.node_id}@host:port, or remove 'controller' from process.roles",
        )
    if not config.is_controller and config.node_id in voters:
        yield (
            "controller.quorum.voters",
            f"node {config.node_id} is a voter but has only the broker role",
            "add 'controller' to process.roles, or remove the node from the voters",
        )
    if not config.is_controller and config.bool("controller.quorum.auto.join.enable"):
        yield (
            "controller.quorum.auto.join.enable",
            "only a controller can join the quorum",
            "remove the line, or add 'controller' to process.roles",
        )


def _listeners(config: BrokerConfig) -> Iterator[Problem]:
    key = "controller.listener.names"
    names = {endpoint.listener_name for endpoint in config.listeners}
    missing = [name for name in config.controller_listener_names if name not in names]
    if config.is_controller and missing:
        yield (
            key,
            f"{word_list(missing)} is not among the listeners ({word_list(names)})",
            f"add {missing[0]}://host:port to listeners, or remove the name",
        )
    if config.is_controller and not config.is_broker and config.broker_listeners:
        extra = word_list({e.listener_name for e in config.broker_listeners})
        yield (
            "listeners",
            f"a node that is only a controller cannot have the broker listener {extra}",
            "remove it, or add it to controller.listener.names",
        )
    if not config.is_controller:
        if config.controller_listeners:
            yield (
                key,
                "a node that is only a broker cannot listen on a controller listener",
                f"remove {word_list({e.listener_name for e in config.controller_listeners})} from listeners",
            )
        for name in config.controller_listener_names:
            if name not in config.security_protocols:
                yield (
                    key,
                    f"listener {name} has no security protocol",
                    f"add {name}:PLAINTEXT (or another protocol) to listener.security.protocol.map",
                )
    if METRICS_LISTENER_NAME in names and config.str("ruslo.metrics.security.protocol") != "PLAINTEXT":
        yield (
            "listeners",
            f"ruslo.metrics.listener with TLS has the name {METRICS_LISTENER_NAME}, too",
            "give the listener another name, or remove ruslo.metrics.security.protocol",
        )
    early = config.list("early.start.listeners")
    for name in early:
        if name not in names and name not in config.controller_listener_names:
            yield (
                "early.start.listeners",
                f"{name} is not among the listeners",
                f"use some of {word_list(names)}",
            )
    yield from _inter_broker(config)


def _inter_broker(config: BrokerConfig) -> Iterator[Problem]:
    key = "inter.broker.listener.name"
    name = config.opt_str(key)
    if name is None:
        return
    if config.is_set("security.inter.broker.protocol"):
        yield (key, "security.inter.broker.protocol is set as well", "remove one of the two lines")
    if config.inter_broker_listener_name not in config.security_protocols:
        yield (
            key,
            "the listener has no security protocol",
            f"add {config.inter_broker_listener_name}:PLAINTEXT (or another protocol) "
            "to listener.security.protocol.map",
        )
    if not config.is_broker and config.inter_broker_listener_name in config.controller_listener_names:
        yield (key, "it is a controller listener", "remove the line: a controller does not need it")


def _advertised(config: BrokerConfig) -> Iterator[Problem]:
    key = "advertised.listeners"
    for endpoint in {*config.declared_broker_advertised, *config.declared_advertised}:
        if endpoint.host == "0.0.0.0":
            yield (
                key,
                f"clients cannot connect to 0.0.0.0 ({endpoint})",
                f"set it to an address clients can reach, e.g. {endpoint.listener_name}://myhost:{endpoint.port}",
            )
    if not config.is_broker:
        return
    advertised = {endpoint.listener_name for endpoint in config.declared_broker_advertised}
    listening = {endpoint.listener_name for endpoint in config.listeners}
    if not advertised:
        yield (
            key,
            "a broker needs a listener for clients, but all listeners are controller listeners",
            "add a listener such as PLAINTEXT://:9092 to listeners",
        )
        return
    if not advertised <= listening:
        yield (
            key,
            f"{word_list(advertised - listening)} is not among the listeners ({word_list(listening)})",
            "advertise only names that are in listeners",
        )
    if config.inter_broker_listener_name not in advertised:
        inter_broker_key = "inter.broker.listener.name"
        yield (
            inter_broker_key,
            f"brokers would connect over {config.inter_broker_listener_name}, which is not advertised",
            f"set it to one of {word_list(advertised)}",
        )


def _connections(config: BrokerConfig) -> Iterator[Problem]:
    if config.int("max.connections.per.ip") == 0 and not config.connection_overrides_per_ip:
        yield (
            "max.connections.per.ip",
            "no client could connect",
            "raise it, or set limits of single hosts in max.connections.per.ip.overrides",
        )
    queued, largest = config.int("queued.max.request.bytes"), config.int("socket.request.max.bytes")
    if 0 < queued < largest:
        yield (
            "queued.max.request.bytes",
            f"a request of socket.request.max.bytes={largest} would never fit",
            f"use {largest} or more, or -1",
        )
    idle_ms = config.int("connections.max.idle.ms")
    delay_ms = config.int("connection.failed.authentication.delay.ms")
    if 0 <= idle_ms <= delay_ms:
        yield (
            "connection.failed.authentication.delay.ms",
            f"connections.max.idle.ms={idle_ms} would close the connection first",
            f"use a value below {idle_ms}",
        )
    protocol = config.security_protocols.get(config.inter_broker_listener_name, "")
    mechanism = config.str("sasl.mechanism.inter.broker.protocol")
    if protocol.startswith("SASL_") and mechanism not in config.enabled_sasl_mechanisms(
        config.inter_broker_listener_name
    ):
        yield (
            "sasl.mechanism.inter.broker.protocol",
            "brokers authenticate to each other with it, but it is not enabled",
            "add it to sasl.enabled.mechanisms",
        )


def _logs(config: BrokerConfig) -> Iterator[Problem]:
    defaults = config.default_log_config
    if defaults.segment_ms < 1:
        yield ("log.roll.ms", "it is below 1", "use 1 or more")
    if defaults.segment_jitter_ms < 0:
        yield ("log.roll.jitter.ms", "it is below 0", "use 0 or more")
    if defaults.retention_ms == 0:
        yield (
            "log.retention.ms",
            "records would be deleted at once",
            "use 1 or more, or -1 to retain them forever",
        )
    if defaults.flush_ms < 0:
        yield ("log.flush.interval.ms", "it is below 0", "use 0 or more")
    if defaults.min_compaction_lag_ms > defaults.max_compaction_lag_ms:
        yield (
            "log.cleaner.min.compaction.lag.ms",
            f"it is above log.cleaner.max.compaction.lag.ms={defaults.max_compaction_lag_ms}",
            "lower it, or raise the limit",
        )
    threads = config.int("log.cleaner.threads")
    dedupe_bytes = config.int("log.cleaner.dedupe.buffer.size")
    if threads and dedupe_bytes // threads <= _MIB:
        yield (
            "log.cleaner.dedupe.buffer.size",
            f"each of the {threads} cleaner threads needs more than {_MIB} bytes",
            "raise it, or lower log.cleaner.threads",
        )
    cordoned = config.list("cordoned.log.dirs")
    unknown = [d for d in cordoned if d != "*" and d not in config.log_dirs]
    if unknown or ("*" in cordoned and len(cordoned) > 1):
        yield (
            "cordoned.log.dirs",
            f"{word_list(unknown)} is not among log.dirs" if unknown else "* already means all",
            "use only '*', or directories of log.dirs",
        )


def _replication(config: BrokerConfig) -> Iterator[Problem]:
    wait_ms = config.int("replica.fetch.wait.max.ms")
    for limit, harm in (
        ("replica.socket.timeout.ms", "fetches would time out"),
        ("replica.lag.time.max.ms", "followers would leave the ISR"),
    ):
        if wait_ms > config.int(limit):
            yield (
                "replica.fetch.wait.max.ms",
                f"it is above {limit}={config.int(limit)}, so {harm}",
                "lower it, or raise the limit",
            )


_SHARE_ASSIGNORS = ("simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")


def _groups(config: BrokerConfig) -> Iterator[Problem]:
    protocols = config.list("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        yield (
            "group.coordinator.rebalance.protocols",
            "the classic protocol cannot be disabled",
            "add classic to the list",
        )
    for key in GROUP:
        limits = bounds(key.name)
        if limits is None:
            continue
        (low, high), (name,) = limits, key.synonyms
        if not config.int(low) <= config.int(name) <= config.int(high):
            yield (
                name,
                f"it is not between {low}={config.int(low)} and {high}={config.int(high)}",
                "change the value or its limits",
            )
    for family in ("consumer", "share", "streams"):
        heartbeat, session = f"group.{family}.heartbeat.interval.ms", f"group.{family}.session.timeout.ms"
        if config.int(heartbeat) >= config.int(session):
            yield (
                heartbeat,
                f"it is not below {session}={config.int(session)}",
                "lower it, or raise the limit",
            )
    assignors = config.list("group.share.assignors")
    if len(assignors) != 1:
        yield ("group.share.assignors", "share groups have exactly one assignor", "keep one of them")
    elif assignors[0] not in _SHARE_ASSIGNORS:
        yield ("group.share.assignors", "share groups have no other assignor than simple", "write simple")
    for name, limit in (
        ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
        ("group.share.max.size", "group.share.max.share.sessions"),
    ):
        if config.int(name) > config.int(limit):
            yield (name, f"it is above {limit}={config.int(limit)}", "lower it, or raise the limit")
