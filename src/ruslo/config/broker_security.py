"""Principals, authorization and delegation tokens."""

from __future__ import annotations

from ruslo.config.definition import (
    CLASS,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    STRING,
    ConfigKey,
)
from ruslo.config.validators import NotNull, at_least

# fmt: off
SECURITY_KEYS = (
    ConfigKey("authorizer.class.name", STRING, "", NotNull(), LOW, READ_ONLY,
        "Class that decides who may do what; empty allows everything."),
    ConfigKey("principal.builder.class", CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", None, MEDIUM,
        PER_BROKER,
        "Class that makes the user name of a connection."),
    ConfigKey("security.providers", STRING, None, None, LOW, READ_ONLY,
        "Classes that register further security providers."),
    ConfigKey("delegation.token.secret.key", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Secret that signs delegation tokens; the same on every node."),
    ConfigKey("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, at_least(1), LOW, READ_ONLY,
        "How often expired delegation tokens are removed."),
    ConfigKey("delegation.token.expiry.time.ms", LONG, 86_400_000, at_least(1), MEDIUM, READ_ONLY,
        "How long a delegation token is valid unless renewed."),
    ConfigKey("delegation.token.max.lifetime.ms", LONG, 604_800_000, at_least(1), MEDIUM, READ_ONLY,
        "How long a delegation token may be renewed at most."),
    ConfigKey("connections.max.reauth.ms", LONG, 0, None, MEDIUM, READ_ONLY,
        "Longest life of a SASL session before it must authenticate again; 0 turns it off."),
)
# fmt: on
