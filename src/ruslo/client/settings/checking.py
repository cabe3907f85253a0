"""Reads settings by a table: every name is known, every value is of its type and in its range."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import get_close_matches

from ruslo.client.settings.setting import IGNORED, REFUSED, ClientConfigValue, Setting, as_text
from ruslo.client.settings.tables import CONSUMER, PRODUCER
from ruslo.config.definition import CLASS, ConfigProblem, InvalidConfig
from ruslo.config.validators import ConfigValue as ParsedValue

_log = logging.getLogger("ruslo.client")
_warned: set[str] = set()


class Checked:
    """The settings that were given, typed; ``foreign`` are names that Kafka does not have.

    Those go to librdkafka as they are, which has settings of its own and knows best which.
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
                fix = "take it out"
                problems.append(ConfigProblem(name, None, f"a {kind} has no such setting", fix))
            elif setting is None:
                self.foreign[name] = value
            elif value is not None:
                try:
                    self._take(setting, value)
                except InvalidConfig as error:
                    problems += error.problems
        if problems:
            raise InvalidConfig(*problems)

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def _take(self, setting: Setting, value: ClientConfigValue) -> None:
        key = setting.key
        if callable(value):
            raise InvalidConfig(ConfigProblem(key.name, None, "it cannot be a function", f"{key.doc}"))
        assert value is not None
        parsed = setting.parse(value)
        if setting.fate in (REFUSED, IGNORED) and parsed == key.default:
            return
        if setting.fate is REFUSED:
            reason = "only Java has it" if key.type is CLASS else "it is not offered here"
            raise key.invalid(as_text(value), reason, key.doc.rstrip("."))
        if setting.fate is IGNORED:
            warn_once(key.name, f"{key.name} has no effect: {key.doc}")
            return
        self.given[key.name] = parsed

    def invalid(self, name: str, reason: str, fix: str) -> InvalidConfig:
        given = self.given.get(name)
        key = self.table[name].key
        return key.invalid(None if given is None else key.format(given), reason, fix)

    def whole(self, name: str) -> int:
        """The value, or Kafka's default, of a setting that is a whole number."""
        value = self.given.get(name, self.table[name].key.default)
        assert isinstance(value, int), name
        return value

    def text(self, name: str) -> str:
        value = self.given.get(name, self.table[name].key.default)
        return value if isinstance(value, str) else ""


def warn_once(name: str, text: str) -> None:
    """Once in a process: a service may make many clients from one file."""
    if name not in _warned:
        _warned.add(name)
        _log.warning("%s", text)


def unknown_name(kind: str, table: Mapping[str, Setting], name: str) -> InvalidConfig:
    near = get_close_matches(name, table, n=1, cutoff=0.6)
    fix = f"did you mean {near[0]}? docs/python-settings.md lists all" if near else "take it out"
    return InvalidConfig(
        ConfigProblem(name, None, f"neither Kafka's {kind} nor librdkafka has such a setting", fix)
    )
