"""Principals, authorization and delegation tokens."""

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
    without_effect,
)
from ruslo.config.validators import NOT_NULL, at_least

# fmt: off
SECURITY_KEYS = without_effect(
    ConfigKey("authorizer.class.name", STRING, "", NOT_NULL, LOW, READ_ONLY,
        "Class of the authorizer. Empty means that every operation is allowed."),
    ConfigKey("principal.builder.class", CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", None, MEDIUM,
        PER_BROKER, "Class that builds the principal of a connection."),
    ConfigKey("security.providers", STRING, None, None, LOW, READ_ONLY,
        "Classes of additional security providers."),
    ConfigKey("delegation.token.secret.key", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Secret that signs delegation tokens. It must be the same on every node."),
    ConfigKey("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, at_least(1), LOW, READ_ONLY,
        "Interval between checks for expired delegation tokens."),
    ConfigKey("delegation.token.expiry.time.ms", LONG, 86_400_000, at_least(1), MEDIUM, READ_ONLY,
        "Time until a delegation token expires unless it is renewed."),
    ConfigKey("delegation.token.max.lifetime.ms", LONG, 604_800_000, at_least(1), MEDIUM, READ_ONLY,
        "Maximum lifetime of a delegation token, including renewals."),
    ConfigKey("connections.max.reauth.ms", LONG, 0, None, MEDIUM, READ_ONLY,
        "Maximum lifetime of a SASL session before the client must reauthenticate; 0 disables it."),
)
# fmt: on
