"""``ssl.principal.mapping.rules``: maps the distinguished name of a certificate to a user name.

``RULE:pattern/replacement/[LU]`` applies if the whole name matches; ``L`` and ``U`` change the case.
``DEFAULT`` keeps the name. The first rule that applies decides; a name to which none applies is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.net.tls.errors import TlsError

_GROUP = re.compile(r"\$(\d+)")
_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^/\\])*)/((?:\\.|[^/\\])*)/([LU]?)")
_LIST = re.compile(r"\s*((DEFAULT)|RULE:(?:\\.|[^/\\])*/(?:\\.|[^/\\])*/[LU]?)\s*(?:,|$)")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: DEFAULT."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = _GROUP.sub(lambda group: _group(match, int(group[1])), self.replacement)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


class PrincipalMapper:
    def __init__(self, rules: str) -> None:
        """Raises ConfigError."""
        self._rules = [_parse(rule) for rule in _split(rules.strip())]

    def user_of(self, distinguished_name: str) -> str:
        """Raises TlsError if no rule applies."""
        for rule in self._rules:
            mapped = rule.apply(distinguished_name)
            if mapped is not None:
                return mapped
        raise TlsError(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}")


def _group(match: re.Match[str], number: int) -> str:
    """A group of the name; a number without a group stands for itself."""
    return match[number] or "" if number <= (match.re.groups) else f"${number}"


def _split(text: str) -> list[str]:
    rules: list[str] = []
    at = 0
    while at < len(text):
        match = _LIST.match(text, at)
        if match is None:
            raise ConfigError(
                f"ssl.principal.mapping.rules has an invalid rule at {text[at : at + 40]!r}. Write "
                "RULE:pattern/replacement/, optionally with L or U after it, or DEFAULT"
            )
        rules.append(match[1])
        at = match.end()
    return rules


def _parse(rule: str) -> _Rule:
    match = _RULE.fullmatch(rule)
    assert match is not None, rule
    if match[1]:
        return _Rule(None, "", "")
    try:
        pattern = re.compile(match[2].replace("\\/", "/"))
        return _Rule(pattern, match[3].replace("\\/", "/"), match[4])
    except re.error as error:
        raise ConfigError(
            f"ssl.principal.mapping.rules: {rule} is not a valid expression ({error})"
        ) from None
