"""What a property is: one row gives its name, type, default, valid range, dynamic mode and doc.

Values are text in property files, metadata records and requests. They are parsed here by Kafka's rules:
whitespace around a value is dropped, numbers are decimal and fit their Java type, commas separate items.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ruslo.config.validators import ConfigValue, Items, Range, Validator
from ruslo.model.errors import ConfigError
from ruslo.model.secret import HIDDEN, Secret

# Compiled on first use: compiling costs more than building all tables, and few starts need it.
_DECIMAL: Final = r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?"
_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf"}
_BLANKS: Final = "".join(map(chr, range(33)))
_BLANKS_AROUND_COMMAS: Final = " \t\n\v\f\r"
_LISTENER_PREFIX: Final = "listener.name."
# A property can be set for one mechanism of a listener: listener.name.NAME.MECHANISM.KEY (KIP-85).
_MECHANISM_PREFIXES: Final = ("plain.", "scram-sha-256.", "scram-sha-512.", "oauthbearer.", "gssapi.")


class ConfigType(enum.IntEnum):
    """The type of a property, with the number that DescribeConfigs responses use."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = ConfigType
_INTEGER_BITS: Final = {INT: 31, SHORT: 15, LONG: 63}


class Importance(enum.StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


HIGH, MEDIUM, LOW = Importance


class Dynamic(enum.StrEnum):
    """How a broker property can change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


READ_ONLY, PER_BROKER, CLUSTER_WIDE = Dynamic


class Required(enum.Enum):
    """Stands for the default of a required property."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


class ConfigProblem(NamedTuple):
    """An invalid setting, the reason, and the fix as an imperative."""

    key: str
    value: str | None
    reason: str
    fix: str

    def __str__(self) -> str:
        setting = self.key if self.value is None else f"{self.key}={self.value}"
        fix = f"{self.fix[:1].upper()}{self.fix[1:]}{'' if self.fix.endswith('?') else '.'}"
        return f"Invalid configuration {setting}: {self.reason}. {fix}"


class InvalidConfig(ConfigError):
    """Invalid settings, each with its reason and its fix."""

    def __init__(self, *problems: ConfigProblem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class ConfigKey(NamedTuple):
    """The declaration of a property."""

    name: str
    type: ConfigType
    default: ConfigValue | Required
    validator: Validator | None
    importance: Importance
    dynamic: Dynamic
    doc: str
    synonyms: tuple[str, ...] = ()
    internal: bool = False
    """DescribeConfigs shows an internal property only if it is set, as in Kafka."""
    has_effect: bool = True
    """False: the property is validated and shown, but nothing in Ruslo reads it."""
    refusal: str | None = None
    """Why Ruslo cannot do what the property promises, and the fix: only its default, and what ``accepted``
    lists, is valid."""
    accepted: tuple[str, ...] = ()

    @property
    def sensitive(self) -> bool:
        return self.type is PASSWORD

    @property
    def default_text(self) -> str | None:
        return None if self.default is REQUIRED else self.format(self.default)

    def parse(self, text: str) -> ConfigValue:
        """Parse and validate a value; raises InvalidConfig."""
        try:
            value = parse_as(self.type, text)
        except ValueError as error:
            raise self.invalid(text, str(error), f"use {self._expected()}") from None
        if isinstance(self.validator, Items) and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        problem = self.validator.problem(value) if self.validator else None
        if problem is not None:
            raise self.invalid(text, problem.reason, problem.fix)
        if self.refusal is not None and value != self.default and value not in self.accepted:
            reason, _, fix = self.refusal.partition(": ")
            raise self.invalid(text, reason, fix)
        return value

    def invalid(self, text: str | None, reason: str, fix: str) -> InvalidConfig:
        return InvalidConfig(ConfigProblem(self.name, HIDDEN if self.sensitive else text, reason, fix))

    def _expected(self) -> str:
        """A valid value in words, within the limits of the type and of the validator."""
        if not isinstance(self.validator, Range) or self.type not in (*_INTEGER_BITS, DOUBLE):
            return _EXPECTED[self.type]
        low, high, also = self.validator.low, self.validator.high, self.validator.also
        or_also = "" if also is None else f", or {also}"
        if self.type is DOUBLE:
            return f"a number in {self.validator}"
        limit = 1 << _INTEGER_BITS[self.type]
        low, high = -limit if low is None else low, limit - 1 if high is None else high
        return f"an integer from {low} to {high}{or_also}"

    def format(self, value: ConfigValue) -> str | None:
        """A value as Kafka prints it."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, Secret):
            return str(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return java_double(value) if self.type is DOUBLE else str(value)


def without_effect(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Rows of properties that a node accepts and ignores; it warns about each one that its user has set."""
    return tuple(key._replace(has_effect=False) for key in keys)


def refused(refusal: str, *keys: ConfigKey, accepted: tuple[str, ...] = ()) -> tuple[ConfigKey, ...]:
    """Rows of properties whose promise Ruslo cannot keep: a node that sets one does not start.

    ``refusal`` is the reason and the fix, separated by a colon.
    """
    return tuple(key._replace(has_effect=bool(accepted), refusal=refusal, accepted=accepted) for key in keys)


class ConfigTable:
    """The properties of one kind of resource."""

    def __init__(self, resource: str, keys: Iterable[ConfigKey]) -> None:
        self.resource = resource
        self.keys: Final[dict[str, ConfigKey]] = {key.name: key for key in keys}

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __getitem__(self, name: str) -> ConfigKey:
        return self.keys[name]

    def get(self, name: str) -> ConfigKey | None:
        return self.keys.get(name)

    def nearest(self, name: str) -> str | None:
        """The property that a misspelled name most likely means."""
        from difflib import get_close_matches  # needed only after a typing error

        return next(iter(get_close_matches(name, self.keys, n=1, cutoff=0.75)), None)


def base_name(name: str) -> str:
    """The property behind ``listener.name.NAME.[MECHANISM.]KEY``; any other name is returned unchanged."""
    if not name.startswith(_LISTENER_PREFIX):
        return name
    _, dot, key = name.removeprefix(_LISTENER_PREFIX).partition(".")
    if not dot or not key:
        return name
    return key.partition(".")[2] if key.startswith(_MECHANISM_PREFIXES) else key


_EXPECTED: Final = {
    BOOLEAN: "true or false",
    STRING: "a string",
    INT: "an integer between -2147483648 and 2147483647",
    SHORT: "an integer between -32768 and 32767",
    LONG: "an integer between -9223372036854775808 and 9223372036854775807",
    DOUBLE: "a number such as 0.5",
    LIST: "items separated by commas",
    CLASS: "a class name",
    PASSWORD: "a string",
}


def parse_as(type_: ConfigType, text: str) -> ConfigValue:
    """Parse without validating the range; raises ValueError with the reason."""
    text = text.strip(_BLANKS)
    if type_ in _INTEGER_BITS:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError("it is not an integer")
        limit = 1 << _INTEGER_BITS[type_]
        # A number of 20 or more digits is out of range. Do not convert it: that takes quadratic time.
        if len(digits.lstrip("0")) > 19 or not -limit <= int(text) < limit:
            raise ValueError(f"it does not fit a {_INTEGER_BITS[type_] + 1}-bit integer")
        return int(text)
    if type_ is BOOLEAN:
        lower = text.lower()
        if lower not in ("true", "false"):
            raise ValueError("it is neither true nor false")
        return lower == "true"
    if type_ is DOUBLE:
        if text in _NOT_FINITE:
            return float(_NOT_FINITE[text])
        match = re.fullmatch(_DECIMAL, text)
        if match is None:
            raise ValueError("it is not a number")
        return float(match[1])
    if type_ is LIST:
        return tuple(item.strip(_BLANKS_AROUND_COMMAS) for item in text.split(",")) if text else ()
    return Secret(text) if type_ is PASSWORD else text


def java_double(value: float) -> str:
    """A double as Java prints it: 0.5, 100.0, 1.0E10."""
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    shortest = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shortest
    digits = shortest.partition("e")[0].replace(".", "").strip("-0")
    from decimal import Decimal

    exponent = Decimal(shortest).adjusted()
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"
