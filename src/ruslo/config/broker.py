"""The configuration of one node: parsed, validated and typed.

``from_properties`` accepts the same property files as Kafka. Its error names every invalid property.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from typing import NamedTuple

from ruslo.config.definition import REQUIRED, ConfigProblem, InvalidConfig, base_name
from ruslo.config.dynamic import usable_overrides
from ruslo.config.keys.broker import BROKER
from ruslo.config.listeners import (
    METRICS_LISTENER_NAME,
    Endpoint,
    HostPort,
    parse_host_port,
    parse_listener,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
    with_reachable_host,
)
from ruslo.config.log_config import LogConfig, apply_topic_overrides, log_defaults
from ruslo.config.providers import resolve_providers
from ruslo.config.rules.broker import broken_rules, warnings
from ruslo.config.validators import ConfigValue
from ruslo.model.principals import Principal, parse_principal
from ruslo.model.secret import Secret

# Properties that are passed to plug-ins.
_PLUGIN_PREFIXES = ("config.providers.", "rlmm.config.", "rsm.config.")
_FIXES = {
    "node.id": "add a line such as node.id=1, with a number that is unique in the cluster",
    "process.roles": "add process.roles=broker,controller for a node with both roles",
    "controller.listener.names": "add controller.listener.names=CONTROLLER and a listener of that name",
}


class ConfigReport(NamedTuple):
    """Warnings about the properties of a node. None of them prevents its start."""

    without_effect: list[str]
    unknown: list[tuple[str, str | None]]
    warnings: list[str]


class BrokerConfig:
    """Typed, validated configuration; immutable. A dynamic change makes a new one (``with_dynamic``)."""

    def __init__(
        self,
        static: Mapping[str, str],
        default_overrides: Mapping[str, str] | None = None,
        broker_overrides: Mapping[str, str] | None = None,
    ) -> None:
        self.static = dict(static)
        self.default_overrides = dict(default_overrides or {})
        self.broker_overrides = dict(broker_overrides or {})
        self._effective = self._effective_properties()
        self._values = _parse(self._effective)
        if "broker.id" not in self._effective:
            self._values["broker.id"] = self._values["node.id"]
        self._check()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Raises InvalidConfig, whose ``problems`` lists every invalid property."""
        return cls(resolve_providers(properties))

    def with_dynamic(
        self, default_overrides: Mapping[str, str], broker_overrides: Mapping[str, str]
    ) -> BrokerConfig:
        """The same node with other dynamic configs: those of all brokers, overridden by its own (KIP-226).

        Invalid stored values are ignored, as in Kafka. Values that break a rule over several configs raise.
        """
        return BrokerConfig(
            self.static,
            usable_overrides(default_overrides, per_broker=False),
            usable_overrides(broker_overrides, per_broker=True),
        )

    # Typed access by property name.

    def get(self, key: builtins.str) -> ConfigValue:
        return self._values[key]

    def int(self, key: builtins.str) -> builtins.int:
        value = self._values[key]
        assert isinstance(value, builtins.int), f"{key} is not an integer but {value!r}"
        return value

    def opt_int(self, key: builtins.str) -> builtins.int | None:
        return None if self._values[key] is None else self.int(key)

    def float(self, key: builtins.str) -> builtins.float:
        value = self._values[key]
        assert isinstance(value, builtins.float), f"{key} is not a number but {value!r}"
        return value

    def bool(self, key: builtins.str) -> builtins.bool:
        value = self._values[key]
        assert isinstance(value, builtins.bool), f"{key} is not a boolean but {value!r}"
        return value

    def str(self, key: builtins.str) -> builtins.str:
        value = self._values[key]
        assert isinstance(value, builtins.str), f"{key} is not a string but {value!r}"
        return value

    def opt_str(self, key: builtins.str) -> builtins.str | None:
        return None if self._values[key] is None else self.str(key)

    def list(self, key: builtins.str) -> tuple[builtins.str, ...]:
        """The items of a list; an unset list is empty."""
        value = self._values[key]
        if value is None:
            return ()
        assert isinstance(value, tuple), f"{key} is not a list but {value!r}"
        return value

    def secret(self, key: builtins.str) -> Secret | None:
        value = self._values[key]
        assert value is None or isinstance(value, Secret), f"{key} is not a secret"
        return value

    def is_set(self, key: builtins.str) -> builtins.bool:
        """True if the property is set in the property file or dynamically."""
        return key in self._effective

    @property
    def static_with_node_id(self) -> Mapping[builtins.str, builtins.str]:
        """The property file, with node.id and its old name broker.id set to the same value."""
        own_id = self.static.get("node.id", self.static.get("broker.id", ""))
        return {"node.id": own_id, "broker.id": own_id, **self.static}

    # Values that depend on several properties.

    @property
    def node_id(self) -> builtins.int:
        return self.int("node.id")

    @property
    def is_broker(self) -> builtins.bool:
        return "broker" in self.list("process.roles")

    @property
    def is_controller(self) -> builtins.bool:
        return "controller" in self.list("process.roles")

    @property
    def log_dirs(self) -> tuple[builtins.str, ...]:
        return self.list("log.dirs") or self.list("log.dir")

    @property
    def cordoned_log_dirs(self) -> tuple[builtins.str, ...]:
        """Log directories that receive no new replicas (KIP-1066)."""
        cordoned = self.list("cordoned.log.dirs")
        return self.log_dirs if "*" in cordoned else cordoned

    @property
    def metadata_log_dir(self) -> builtins.str:
        return self.opt_str("metadata.log.dir") or self.log_dirs[0]

    @cached_property
    def controller_listener_names(self) -> tuple[builtins.str, ...]:
        return tuple(name.upper() for name in self.list("controller.listener.names"))

    @cached_property
    def security_protocols(self) -> Mapping[builtins.str, builtins.str]:
        """The security protocol of each listener name."""
        key = "listener.security.protocol.map"
        protocols = parse_protocol_map(key, self.str(key))
        secured = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")
        names = [parsed[0] for parsed in map(parse_listener, self.list("listeners")) if parsed]
        if not self.is_set(key) and not any(n in secured for n in (*names, *self.controller_listener_names)):
            # Without an explicit map and without secured listeners, controller listeners are plaintext.
            protocols.update(
                dict.fromkeys((n for n in self.controller_listener_names if n not in protocols), "PLAINTEXT")
            )
        return protocols

    @cached_property
    def listeners(self) -> tuple[Endpoint, ...]:
        """All listeners of this node."""
        return parse_listeners("listeners", self.list("listeners"), self.security_protocols)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(e for e in self.listeners if e.listener_name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(e for e in self.listeners if e.listener_name in self.controller_listener_names)

    @cached_property
    def declared_advertised(self) -> tuple[Endpoint, ...]:
        """``advertised.listeners`` as configured; it can include controller listeners (KIP-853)."""
        key = "advertised.listeners"
        return parse_listeners(key, self.list(key), self.security_protocols, share_ports=True)

    @property
    def declared_broker_advertised(self) -> tuple[Endpoint, ...]:
        declared = (
            self.declared_advertised if self.get("advertised.listeners") is not None else self.listeners
        )
        return tuple(e for e in declared if e.listener_name not in self.controller_listener_names)

    def advertised_broker_listeners(
        self, bound_ports: Mapping[builtins.str, builtins.int] | None = None
    ) -> tuple[Endpoint, ...]:
        """The endpoints in Metadata responses. ``bound_ports`` gives the real port of listeners on port 0.

        This may resolve the host name, so call it once, not for every request.
        """
        return tuple(with_reachable_host(e, bound_ports or {}) for e in self.declared_broker_advertised)

    def advertised_controller_listeners(
        self, bound_ports: Mapping[builtins.str, builtins.int] | None = None
    ) -> tuple[Endpoint, ...]:
        """The endpoints of this controller for peers: as advertised, else as voter, else as listener."""
        declared = {e.listener_name: e for e in self.declared_advertised}
        listening = {e.listener_name: e for e in self.controller_listeners}
        endpoints: builtins.list[Endpoint] = []
        for index, name in enumerate(self.controller_listener_names):
            endpoint = declared.get(name) or listening.get(name)
            if endpoint is None:
                continue
            if name not in declared and endpoint.host in ("", "0.0.0.0"):
                voter = self.quorum_voters.get(self.node_id) if index == 0 else None
                endpoint = (
                    endpoint._replace(host="") if voter is None else endpoint._replace(**voter._asdict())
                )
            endpoints.append(with_reachable_host(endpoint, bound_ports or {}))
        return tuple(endpoints)

    @cached_property
    def inter_broker_listener_name(self) -> builtins.str:
        name = self.opt_str("inter.broker.listener.name")
        return (name or self.str("security.inter.broker.protocol")).upper()

    def of_listener(self, listener_name: builtins.str, mechanism: builtins.str | None = None) -> BrokerConfig:
        """The configuration with the values of one listener, and of one of its SASL mechanisms.

        ``listener.name.NAME.MECHANISM.KEY`` overrides ``listener.name.NAME.KEY``, which overrides ``KEY``.
        Only the listener's own ``ssl.client.auth`` applies to SASL_SSL (KIP-684).
        """
        view = copy(self)
        prefix = f"listener.name.{listener_name.lower()}."
        overrides = {
            base: text
            for name, text in self._effective.items()
            if name.startswith(prefix) and (base := name.removeprefix(prefix)) in BROKER
        }
        if self.security_protocols.get(listener_name.upper()) == "SASL_SSL":
            overrides.setdefault("ssl.client.auth", "none")
        if mechanism is not None:
            prefix += f"{mechanism.lower()}."
            overrides |= {
                base: text
                for name, text in self._effective.items()
                if name.startswith(prefix) and (base := name.removeprefix(prefix)) in BROKER
            }
        view._effective = {**self._effective, **overrides}
        view._values = {
            **self._values,
            **{name: BROKER[name].parse(text) for name, text in overrides.items()},
        }
        return view

    def enabled_sasl_mechanisms(self, listener_name: builtins.str) -> tuple[builtins.str, ...]:
        """The SASL mechanisms of a listener; its own value overrides the common one."""
        return self.of_listener(listener_name).list("sasl.enabled.mechanisms")

    @cached_property
    def super_users(self) -> frozenset[Principal]:
        """``super.users``: principals separated by semicolons. Raises InvalidConfig."""
        key = "super.users"
        try:
            listed = (part.strip() for part in self.str(key).split(";"))
            return frozenset(parse_principal(part) for part in listed if part)
        except ValueError as error:
            fix = "write principals separated by semicolons, e.g. User:admin;User:broker"
            raise InvalidConfig(ConfigProblem(key, self.str(key), str(error), fix)) from None

    @cached_property
    def quorum_voters(self) -> Mapping[builtins.int, HostPort]:
        return parse_voters(self.list("controller.quorum.voters"))

    @cached_property
    def quorum_bootstrap_servers(self) -> tuple[HostPort, ...]:
        return tuple(map(parse_host_port, self.list("controller.quorum.bootstrap.servers")))

    @cached_property
    def connection_overrides_per_ip(self) -> Mapping[builtins.str, builtins.int]:
        """``max.connections.per.ip.overrides`` by host or address."""
        key = "max.connections.per.ip.overrides"
        overrides: dict[builtins.str, builtins.int] = {}
        for entry in filter(None, (part.strip() for part in self.str(key).split(","))):
            host, _, count = (part.strip() for part in entry.rpartition(":"))
            if not host or not count.isdecimal():
                fix = "write host:count, …, e.g. 10.0.0.7:100"
                raise InvalidConfig(ConfigProblem(key, entry, "it does not map a host to a number", fix))
            overrides[host] = builtins.int(count)
        return overrides

    # Logs.

    @cached_property
    def default_log_config(self) -> LogConfig:
        """The configuration of a topic without overrides on this broker."""
        return log_defaults(self)

    def log_config(self, topic_overrides: Mapping[builtins.str, builtins.str]) -> LogConfig:
        """The effective configuration of a topic. Raises InvalidConfig if an override is invalid."""
        return apply_topic_overrides(self.default_log_config, topic_overrides)

    # Warnings.

    def report(self) -> ConfigReport:
        unknown = unknown_names(self.static)
        without_effect = sorted(
            name for name in self.static.keys() - dict(unknown).keys() if not self._has_effect(name)
        )
        return ConfigReport(without_effect, unknown, warnings(self))

    def _has_effect(self, name: builtins.str) -> builtins.bool:
        base = base_name(name)
        # A value for a plug-in is in no table.
        if base not in BROKER or not BROKER[base].has_effect:
            return False
        if base == name:
            return True
        listener_name = name.split(".")[2].upper()
        protocol = self.security_protocols.get(listener_name, "")
        if listener_name == METRICS_LISTENER_NAME and not protocol and base.startswith("ssl."):
            protocol = self.str("ruslo.metrics.security.protocol")
        if base.startswith("ssl."):
            return protocol.endswith("SSL")
        return protocol.startswith("SASL") if base.startswith("sasl.") else protocol != ""

    # Construction.

    def _effective_properties(self) -> dict[builtins.str, builtins.str]:
        """Static properties overridden by dynamic ones. A dynamic property also overrides static synonyms."""
        effective = dict(self.static)
        if "node.id" not in effective and "broker.id" in effective:
            effective["node.id"] = effective["broker.id"]
        for overrides in (self.default_overrides, self.broker_overrides):
            for name, value in overrides.items():
                known = BROKER.get(name)
                for synonym in known.synonyms if known else ():
                    effective.pop(synonym, None)
                effective[name] = value
        return effective

    def _check(self) -> None:
        problems = builtins.list(broken_rules(self))
        if problems:
            raise InvalidConfig(*problems)


def _parse(properties: Mapping[str, str]) -> dict[str, ConfigValue]:
    values: dict[str, ConfigValue] = {}
    problems: list[ConfigProblem] = []
    for key in BROKER:
        text = properties.get(key.name)
        if text is not None:
            _collect(problems, values, key.name, text)
        elif key.default is REQUIRED:
            problems.append(ConfigProblem(key.name, None, "it is missing", _FIXES[key.name]))
        else:
            values[key.name] = key.default
    _check_per_listener(problems, properties)
    if problems:
        raise InvalidConfig(*problems)
    return values


def _collect(problems: list[ConfigProblem], values: dict[str, ConfigValue], name: str, text: str) -> None:
    try:
        values[name] = BROKER[name].parse(text)
    except InvalidConfig as error:
        problems.extend(error.problems)


def _check_per_listener(problems: list[ConfigProblem], properties: Mapping[str, str]) -> None:
    for name, text in properties.items():
        base = base_name(name)
        if base != name and base in BROKER:
            _collect(problems, {}, base, text)


def unknown_names(names: Iterable[str]) -> list[tuple[str, str | None]]:
    """The names that are not broker properties, sorted, each with the property that it most likely means."""
    return sorted(
        (name, BROKER.nearest(name))
        for name in names
        if not name.startswith(_PLUGIN_PREFIXES) and base_name(name) not in BROKER
    )
