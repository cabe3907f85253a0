"""The properties of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from typing import Final

from ruslo.config.definition import CLUSTER_WIDE, INT, LIST, MEDIUM, ConfigKey, ConfigTable
from ruslo.config.validators import Check, ConfigValue, Items, Problem
from ruslo.model.client_match import MATCH_ATTRIBUTES, ClientMatch

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"

DEFAULT_INTERVAL_MS: Final = 300_000
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000


def _match_problem(value: ConfigValue) -> Problem | None:
    assert isinstance(value, tuple)
    try:
        ClientMatch(value)
    except ValueError as error:
        attributes = ", ".join(MATCH_ATTRIBUTES)
        return Problem(str(error), f"use ATTRIBUTE=REGEX with one of the attributes {attributes}")
    return None


# fmt: off
CLIENT_METRICS = ConfigTable("client metrics subscription", (
    ConfigKey(METRICS, LIST, (), Items(), MEDIUM, CLUSTER_WIDE,
        "Prefixes of the names of the metrics that matching clients push; * means all metrics."),
    # Kafka checks the interval after it has parsed the value: the error code is another one (alteration).
    ConfigKey(INTERVAL_MS, INT, DEFAULT_INTERVAL_MS, None, MEDIUM, CLUSTER_WIDE,
        "Interval at which matching clients push metrics, from 100 ms to 1 hour."),
    ConfigKey(MATCH, LIST, (), Check("ATTRIBUTE=REGEX,...", _match_problem), MEDIUM, CLUSTER_WIDE,
        "Patterns of the clients that the subscription applies to; empty means all clients. The expression "
        "must match the whole value of the attribute."),
))
# fmt: on
