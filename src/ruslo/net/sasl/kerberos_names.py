"""``sasl.kerberos.principal.to.local.rules``: maps a Kerberos principal to a user name.

``RULE:[n:string](regexp)s/pattern/replacement/g/L`` applies to principals with n components: ``string`` is
built from them (``$0`` is the realm), must match ``regexp``, and is then edited. ``DEFAULT`` applies to
principals of the default realm and takes their first component.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.net.sasl.mechanism import AuthenticationFailed

_RULE = re.compile(r"(DEFAULT)|RULE:\[(\d+):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?(/?[LU])?")
_PRINCIPAL = re.compile(r"([^/@]+)(?:/([^/@]+))?(?:@([^/@]+))?")
_PLACE = re.compile(r"\$(\d)")


class _Rule(NamedTuple):
    components: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    repeat: bool
    case: str

    def apply(self, parts: Sequence[str]) -> str | None:
        """``parts``: the realm, then the components."""
        if len(parts) - 1 != self.components:
            return None
        name = _PLACE.sub(lambda place: parts[int(place[1])], self.format)
        if self.match is not None and not self.match.fullmatch(name):
            return None
        if self.pattern is not None:
            name = self.pattern.sub(self.replacement, name, count=0 if self.repeat else 1)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class KerberosNames:
    def __init__(self, rules: Sequence[str], default_realm: Callable[[], str]) -> None:
        """Raises ConfigError."""
        self._rules = [_parse(rule) for rule in rules]
        self._default_realm = default_realm

    def user_of(self, principal: str) -> str:
        """Raises AuthenticationFailed if no rule applies."""
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            raise AuthenticationFailed(f"{principal!r} is not a Kerberos principal")
        service, host, realm = match.groups()
        if realm is None:
            return str(service)
        parts = [part for part in (realm, service, host) if part is not None]
        for rule in self._rules:
            if rule is None:
                name = service if realm == self._default_realm() else None
            else:
                name = rule.apply(parts)
            if name is not None:
                if "/" in name or "@" in name:
                    raise AuthenticationFailed(f"{principal} maps to {name!r}, which is not a user name")
                return str(name)
        raise AuthenticationFailed(
            f"no rule of sasl.kerberos.principal.to.local.rules applies to {principal}"
        )


def _parse(text: str) -> _Rule | None:
    """None: DEFAULT."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"sasl.kerberos.principal.to.local.rules has the invalid rule {text!r}. Write DEFAULT, or "
            "RULE:[n:string](regexp)s/pattern/replacement/"
        )
    default, count, form, expression, pattern, replacement, repeat, case = match.groups()
    if default:
        return None
    try:
        return _Rule(
            int(count),
            form,
            None if expression is None else re.compile(expression),
            None if pattern is None else re.compile(pattern),
            re.sub(r"\$(\d)", r"\\\1", replacement or ""),
            repeat is not None,
            (case or "").removeprefix("/"),
        )
    except re.error as error:
        raise ConfigError(
            f"sasl.kerberos.principal.to.local.rules: {text} is not a valid expression ({error})"
        ) from None
