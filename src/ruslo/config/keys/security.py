"""Principals, authorization, audit and delegation tokens."""

from ruslo.config.definition import (
    BOOLEAN,
    CLASS,
    HIGH,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    STRING,
    ConfigKey,
    refused,
)
from ruslo.config.validators import NOT_NULL, at_least

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

# fmt: off
SECURITY_KEYS = (
    *refused(
        f"this node has one authorizer, {STANDARD_AUTHORIZER}: use its name; ACLs of another authorizer must "
        "be created again with 'ruslo acl create'",
        ConfigKey("authorizer.class.name", STRING, "", NOT_NULL, LOW, READ_ONLY,
            f"Authorizer: {STANDARD_AUTHORIZER} checks every request against the ACLs. Empty means that "
            "every operation is allowed."),
        accepted=(STANDARD_AUTHORIZER,),
    ),
    ConfigKey("super.users", STRING, "", None, HIGH, READ_ONLY,
        "Principals that may do everything, separated by semicolons: User:admin;User:broker.",
        internal=True),
    ConfigKey("allow.everyone.if.no.acl.found", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Allow every operation on a resource that no ACL covers.", internal=True),
    *refused(
        "principals are built by Kafka's default builder only: remove the line; ssl.principal.mapping.rules "
        "and sasl.kerberos.principal.to.local.rules map names",
        ConfigKey("principal.builder.class", CLASS,
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", None, MEDIUM,
            PER_BROKER, "Class that builds the principal of a connection. Ruslo has the default only."),
    ),
    *refused(
        "TLS and SASL come from OpenSSL and from Ruslo, not from Java: remove the line",
        ConfigKey("security.providers", STRING, None, None, LOW, READ_ONLY,
            "Java classes of additional security providers. Ruslo refuses to start with one."),
    ),
    ConfigKey("ruslo.audit.log", STRING, "", None, MEDIUM, READ_ONLY,
        "Ruslo only: file of the audit log, one JSON object per line: denied requests, log-ins and "
        "administrative changes. Empty means none, - the log of the node."),
    ConfigKey("ruslo.audit.log.allowed", BOOLEAN, False, None, LOW, READ_ONLY,
        "Ruslo only: the audit log contains allowed operations, too, once per principal, operation and "
        "resource until ACLs change."),
    ConfigKey("delegation.token.secret.key", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Secret that signs delegation tokens, the same on every node. Without one there are no tokens."),
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
