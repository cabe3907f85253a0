"""Rules that several broker keys must keep together.

Each rule is a small generator of problems; ``broken_rules`` runs them all, so one start shows every mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ruslo.config.definition import ConfigProblem, InvalidConfig
from ruslo.config.validators import word_list

if TYPE_CHECKING:
    from ruslo.config.broker import BrokerConfig

_MIB = 1 << 20
# Each of these is group.FAMILY.WHAT, bounded by group.FAMILY.min.WHAT and group.FAMILY.max.WHAT.
_GROUP_BOUNDS = (
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "session.timeout.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "assignment.interval.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
    ("share", "record.lock.duration.ms"),
    ("streams", "heartbeat.interval.ms"),
    ("streams", "session.timeout.ms"),
    ("streams", "assignment.interval.ms"),
)


def broken_rules(config: BrokerConfig) -> Iterator[ConfigProblem]:
    """Everything that is wrong with a set of settings that are fine one by one."""
    try:
        # Endpoints and overrides are parsed on first use; the later rules need them.
        _ = config.security_protocols, config.listeners, config.declared_advertised
        _ = config.connection_overrides_per_ip
    except InvalidConfig as error:
        yield from error.problems
        return
    for rule in (_node, _quorum, _listeners, _advertised, _connections, _logs, _replication, _groups):
        yield from rule(config)


def warnings(config: BrokerConfig) -> list[str]:
    """Settings that work but that nobody would want."""
    found: list[str] = []
    heartbeat_ms, session_ms = (
        config.int("broker.heartbeat.interval.ms"),
        config.int("broker.session.timeout.ms"),
    )
    if heartbeat_ms * 2 > session_ms:
        found.append(
            f"broker.heartbeat.interval.ms={heartbeat_ms} is more than half of broker.session.timeout.ms="
            f"{session_ms}, so one lost heartbeat fences the broker: lower the first or raise the second."
        )
    return found


def _node(config: BrokerConfig) -> Iterator[ConfigProblem]:
    if config.int("broker.id") != config.node_id:
        yield ConfigProblem(
            "broker.id",
            str(config.int("broker.id")),
            f"it differs from node.id={config.node_id}",
            "take the line broker.id out",
        )


def _quorum(config: BrokerConfig) -> Iterator[ConfigProblem]:
    voters = config.quorum_voters
    if not voters and not config.quorum_bootstrap_servers:
        yield ConfigProblem(
            "controller.quorum.bootstrap.servers",
            None,
            "the node does not know where the controllers are",
            "set it to host:port of the controllers, or set controller.quorum.voters",
        )
    listed = ",".join(config.list("controller.quorum.voters"))
    if config.is_controller and voters and config.node_id not in voters:
        yield ConfigProblem(
            "controller.quorum.voters",
            listed,
            f"this controller (node.id={config.node_id}) is not among the voters",
            f"add {config.node_id}@host:port, or take 'controller' out of process.roles",
        )
    if not config.is_controller and config.node_id in voters:
        yield ConfigProblem(
            "controller.quorum.voters",
            listed,
            f"node {config.node_id} is a voter here but has only the broker role",
            "add 'controller' to process.roles, or take the node out of the voters",
        )
    if not config.is_controller and config.bool("controller.quorum.auto.join.enable"):
        yield ConfigProblem(
            "controller.quorum.auto.join.enable",
            "true",
            "only a controller can join the quorum",
            "take the line out, or add 'controller' to process.roles",
        )


def _listeners(config: BrokerConfig) -> Iterator[ConfigProblem]:
    key = "controller.listener.names"
    text = ",".join(config.list(key))
    names = {endpoint.listener_name for endpoint in config.listeners}
    missing = [name for name in config.controller_listener_names if name not in names]
    if config.is_controller and missing:
        yield ConfigProblem(
            key,
            text,
            f"{word_list(missing)} is not among the listeners ({word_list(names)})",
            f"add {missing[0]}://host:port to listeners, or take the name out",
        )
    if config.is_controller and not config.is_broker and config.broker_listeners:
        extra = word_list({e.listener_name for e in config.broker_listeners})
        yield ConfigProblem(
            "listeners",
            ",".join(config.list("listeners")),
            f"a node that is only a controller cannot have the broker listener {extra}",
            "take it out, or add it to controller.listener.names",
        )
    if not config.is_controller:
        if config.controller_listeners:
            yield ConfigProblem(
                key,
                text,
                "a node that is only a broker cannot listen on a controller listener",
                f"take {word_list({e.listener_name for e in config.controller_listeners})} out of listeners",
            )
        for name in config.controller_listener_names:
            if name not in config.security_protocols:
                yield ConfigProblem(
                    key,
                    text,
                    f"no security protocol is given for listener {name}",
                    f"add {name}:PLAINTEXT (or another protocol) to listener.security.protocol.map",
                )
    early = config.list("early.start.listeners")
    for name in early:
        if name not in names and name not in config.controller_listener_names:
            yield ConfigProblem(
                "early.start.listeners",
                ",".join(early),
                f"{name} is not among the listeners",
                f"use any of {word_list(names)}",
            )
    yield from _inter_broker(config)


def _inter_broker(config: BrokerConfig) -> Iterator[ConfigProblem]:
    key = "inter.broker.listener.name"
    name = config.opt_str(key)
    if name is None:
        return
    if config.is_set("security.inter.broker.protocol"):
        yield ConfigProblem(
            key, name, "security.inter.broker.protocol is set as well", "take one of the two lines out"
        )
    if config.inter_broker_listener_name not in config.security_protocols:
        yield ConfigProblem(
            key,
            name,
            "no security protocol is given for it",
            f"add {config.inter_broker_listener_name}:PLAINTEXT (or another protocol) "
            "to listener.security.protocol.map",
        )
    if not config.is_broker and config.inter_broker_listener_name in config.controller_listener_names:
        yield ConfigProblem(
            key, name, "it is a controller listener", "take the line out; a controller does not need it"
        )


def _advertised(config: BrokerConfig) -> Iterator[ConfigProblem]:
    key = "advertised.listeners"
    text = ",".join(map(str, config.declared_broker_advertised))
    for endpoint in {*config.declared_broker_advertised, *config.declared_advertised}:
        if endpoint.host == "0.0.0.0":
            yield ConfigProblem(
                key,
                str(endpoint),
                "0.0.0.0 is no address a client can reach",
                f"set it to an address clients can reach, e.g. {endpoint.listener_name}://myhost:{endpoint.port}",
            )
    if not config.is_broker:
        return
    advertised = {endpoint.listener_name for endpoint in config.declared_broker_advertised}
    listening = {endpoint.listener_name for endpoint in config.listeners}
    if not advertised:
        yield ConfigProblem(
            key,
            None,
            "a broker needs a listener for clients and all are controller listeners",
            "add a listener such as PLAINTEXT://:9092 to listeners",
        )
        return
    if not advertised <= listening:
        yield ConfigProblem(
            key,
            text,
            f"{word_list(advertised - listening)} is not among the listeners ({word_list(listening)})",
            "advertise only listeners the node has",
        )
    if config.inter_broker_listener_name not in advertised:
        inter_broker_key = "inter.broker.listener.name"
        yield ConfigProblem(
            inter_broker_key,
            config.opt_str(inter_broker_key),
            f"brokers would talk over {config.inter_broker_listener_name}, which is not advertised",
            f"set it to one of {word_list(advertised)}",
        )


def _connections(config: BrokerConfig) -> Iterator[ConfigProblem]:
    if config.int("max.connections.per.ip") == 0 and not config.connection_overrides_per_ip:
        yield ConfigProblem(
            "max.connections.per.ip",
            "0",
            "nobody could connect",
            "raise it, or allow single hosts in max.connections.per.ip.overrides",
        )
    queued, largest = config.int("queued.max.request.bytes"), config.int("socket.request.max.bytes")
    if 0 < queued < largest:
        yield ConfigProblem(
            "queued.max.request.bytes",
            str(queued),
            f"a request of socket.request.max.bytes={largest} would never fit",
            "make it at least as large, or -1",
        )
    idle_ms = config.int("connections.max.idle.ms")
    delay_ms = config.int("connection.failed.authentication.delay.ms")
    if 0 <= idle_ms <= delay_ms:
        yield ConfigProblem(
            "connection.failed.authentication.delay.ms",
            str(delay_ms),
            f"the connection would be closed before, by connections.max.idle.ms={idle_ms}",
            "make it smaller than that",
        )
    protocol = config.security_protocols.get(config.inter_broker_listener_name, "")
    mechanism = config.str("sasl.mechanism.inter.broker.protocol")
    if protocol.startswith("SASL_") and mechanism not in config.enabled_sasl_mechanisms(
        config.inter_broker_listener_name
    ):
        yield ConfigProblem(
            "sasl.mechanism.inter.broker.protocol",
            mechanism,
            "brokers authenticate to each other with it but it is not enabled",
            "add it to sasl.enabled.mechanisms",
        )


def _logs(config: BrokerConfig) -> Iterator[ConfigProblem]:
    defaults = config.default_log_config
    if defaults.segment_ms < 1:
        yield ConfigProblem("log.roll.ms", str(defaults.segment_ms), "it is below 1", "use 1 or more")
    if defaults.segment_jitter_ms < 0:
        yield ConfigProblem(
            "log.roll.jitter.ms", str(defaults.segment_jitter_ms), "it is below 0", "use 0 or more"
        )
    if defaults.retention_ms == 0:
        yield ConfigProblem(
            "log.retention.ms", "0", "records would go at once", "use 1 or more, or -1 to keep them for ever"
        )
    if defaults.flush_ms < 0:
        yield ConfigProblem("log.flush.interval.ms", str(defaults.flush_ms), "it is below 0", "use 0 or more")
    if defaults.min_compaction_lag_ms > defaults.max_compaction_lag_ms:
        yield ConfigProblem(
            "log.cleaner.min.compaction.lag.ms",
            str(defaults.min_compaction_lag_ms),
            f"it is above log.cleaner.max.compaction.lag.ms={defaults.max_compaction_lag_ms}",
            "lower it, or raise the other",
        )
    threads = config.int("log.cleaner.threads")
    dedupe_bytes = config.int("log.cleaner.dedupe.buffer.size")
    if threads and dedupe_bytes // threads <= _MIB:
        yield ConfigProblem(
            "log.cleaner.dedupe.buffer.size",
            str(dedupe_bytes),
            f"each of the {threads} compactor threads needs more than {_MIB} bytes",
            "raise it, or lower log.cleaner.threads",
        )
    cordoned = config.list("cordoned.log.dirs")
    strangers = [d for d in cordoned if d != "*" and d not in config.log_dirs]
    if strangers or ("*" in cordoned and len(cordoned) > 1):
        yield ConfigProblem(
            "cordoned.log.dirs",
            ",".join(cordoned),
            f"{word_list(strangers)} is not among log.dirs" if strangers else "* already means all",
            "use '*' alone, or directories of log.dirs",
        )


def _replication(config: BrokerConfig) -> Iterator[ConfigProblem]:
    wait_ms = config.int("replica.fetch.wait.max.ms")
    for limit, harm in (
        ("replica.socket.timeout.ms", "fetches would time out"),
        ("replica.lag.time.max.ms", "followers would drop out of the in-sync set"),
    ):
        if wait_ms > config.int(limit):
            yield ConfigProblem(
                "replica.fetch.wait.max.ms",
                str(wait_ms),
                f"it is above {limit}={config.int(limit)}, so that {harm}",
                "lower it, or raise the other",
            )


def _groups(config: BrokerConfig) -> Iterator[ConfigProblem]:
    protocols = config.list("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        yield ConfigProblem(
            "group.coordinator.rebalance.protocols",
            ",".join(protocols),
            "the classic protocol cannot be turned off",
            "add classic to the list",
        )
    for family, what in _GROUP_BOUNDS:
        name = f"group.{family}.{what}"
        low, high = f"group.{family}.min.{what}", f"group.{family}.max.{what}"
        if not config.int(low) <= config.int(name) <= config.int(high):
            yield ConfigProblem(
                name,
                str(config.int(name)),
                f"it is not between {low}={config.int(low)} and {high}={config.int(high)}",
                "change it or its bounds",
            )
    for family in ("consumer", "share", "streams"):
        heartbeat, session = f"group.{family}.heartbeat.interval.ms", f"group.{family}.session.timeout.ms"
        if config.int(heartbeat) >= config.int(session):
            yield ConfigProblem(
                heartbeat,
                str(config.int(heartbeat)),
                f"it is not below {session}={config.int(session)}",
                "lower it, or raise the other",
            )
    if len(config.list("group.share.assignors")) != 1:
        yield ConfigProblem(
            "group.share.assignors",
            ",".join(config.list("group.share.assignors")),
            "share groups have exactly one assignor",
            "leave one",
        )
    for name, limit in (
        ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
        ("group.share.max.size", "group.share.max.share.sessions"),
    ):
        if config.int(name) > config.int(limit):
            yield ConfigProblem(
                name,
                str(config.int(name)),
                f"it is above {limit}={config.int(limit)}",
                "lower it, or raise the other",
            )
