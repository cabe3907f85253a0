"""Checks settings against a table: names, types and ranges."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import get_close_matches

from ruslo.client.settings.setting import IGNORED, REFUSED, ClientConfigValue, Setting, as_text
from ruslo.client.settings.tables import CONSUMER, PRODUCER
from ruslo.config.definition import CLASS, ConfigProblem, InvalidConfig
from ruslo.config.validators import ConfigValue as ParsedValue
from ruslo.model.secret import Secret

_log = logging.getLogger("ruslo.client")
_warned: set[str] = set()


class Checked:
    """The given settings with typed values.

    Names that Kafka does not have are ``foreign``; they go to librdkafka unchecked.
    """

    def __init__(self, kind: str, table: Mapping[str, Setting], config: Mapping[str, ClientConfigValue]):
        self.kind = kind
        self.table = table
        self.given: dict[str, ParsedValue] = {}
        self.foreign: dict[str, ClientConfigValue] = {}
        other = CONSUMER if table is PRODUCER else PRODUCER
        problems: list[ConfigProblem] = []
        for name, value in config.items():
            setting = table.get(name)
            if setting is None and name in other:
                fix = "remove it"
                problems.append(ConfigProblem(name, None, f"a {kind} has no such setting", fix))
            elif setting is None:
                self.foreign[name] = value
            elif value is not None:
                try:
                    self._check(setting, value)
                except InvalidConfig as error:
                    problems += error.problems
        if problems:
            raise InvalidConfig(*problems)

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def _check(self, setting: Setting, value: ClientConfigValue) -> None:
        key = setting.key
        if callable(value):
            raise InvalidConfig(ConfigProblem(key.name, None, "it must not be a callable", f"{key.doc}"))
        assert value is not None
        parsed = setting.parse(value)
        if setting.handling in (REFUSED, IGNORED) and parsed == key.default:
            return
        if setting.handling is REFUSED:
            reason = "it exists in Java only" if key.type is CLASS else "it is not supported"
            raise key.invalid(as_text(value), reason, key.doc.rstrip("."))
        if setting.handling is IGNORED:
            warn_once(key.name, f"{key.name} has no effect: {key.doc}")
            return
        self.given[key.name] = parsed

    def invalid(self, name: str, reason: str, fix: str) -> InvalidConfig:
        given = self.given.get(name)
        key = self.table[name].key
        return key.invalid(None if given is None else key.format(given), reason, fix)

    def whole(self, name: str) -> int:
        """The value of an integer setting, or Kafka's default."""
        value = self.given.get(name, self.table[name].key.default)
        assert isinstance(value, int), name
        return value

    def text(self, name: str) -> str:
        value = self.given.get(name, self.table[name].key.default)
        if isinstance(value, Secret):
            return value.reveal()
        return value if isinstance(value, str) else ""


def required_bootstrap(checked: Checked) -> tuple[str, ...]:
    servers = checked.given.get("bootstrap.servers")
    if not isinstance(servers, tuple) or not any(servers):
        raise InvalidConfig(
            ConfigProblem("bootstrap.servers", None, "it is missing", "give at least one HOST:PORT")
        )
    return servers


def warn_once(name: str, text: str) -> None:
    """Warn once per process: a service may create many clients from one file."""
    if name not in _warned:
        _warned.add(name)
        _log.warning("%s", text)


def unknown_name(
    kind: str, table: Mapping[str, Setting], name: str, *, librdkafka: bool = True
) -> InvalidConfig:
    """``librdkafka``: whether the client would accept librdkafka's names as well."""
    near = get_close_matches(name, table, n=1, cutoff=0.6)
    fix = f"did you mean {near[0]}? docs/python-settings.md lists all settings" if near else "remove it"
    reason = f"neither Kafka's {kind} nor librdkafka has such a setting"
    if not librdkafka:
        reason = f"a {kind} has no such setting"
    return InvalidConfig(ConfigProblem(name, None, reason, fix))
