"""The security settings of a client of Kafka, for our own connections.

All names of Kafka's Java client are accepted, and the names that librdkafka uses for the same things, so one
profile serves both. A setting that cannot be honoured is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ruslo.client.settings.sasl_keys import SASL_KEYS
from ruslo.client.settings.tls_keys import TLS_KEYS
from ruslo.config.definition import ConfigProblem, InvalidConfig
from ruslo.config.jaas import JaasLogin, parse_jaas
from ruslo.model.clock import Clock, SystemClock
from ruslo.model.errors import ConfigError
from ruslo.model.scram import MECHANISM_OF
from ruslo.model.secret import Secret
from ruslo.net.channel_security import UNPROTECTED, ChannelSecurity
from ruslo.net.sasl.client_exchange import ClientLogin
from ruslo.net.sasl.logins import bearer_login, kerberos_login, password_login
from ruslo.net.sasl.mechanism import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN
from ruslo.net.sasl.oauth_settings import token_source
from ruslo.net.tls.contexts import client_context
from ruslo.net.tls.settings import StoreSettings, TlsSettings

SECURITY_PREFIXES = ("sasl.", "security.", "ssl.", "enable.ssl.")
_KEYS = {setting.key.name: setting.key for setting in (*TLS_KEYS, *SASL_KEYS)}
_ALIASES = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's names for settings of Kafka."""
_OWN = ("sasl.username", "sasl.password", "ssl.certificate.location", "ssl.key.location")
"""librdkafka's settings without a counterpart of the same form in Kafka."""
_JAVA_ONLY = (
    "security.providers", "ssl.engine.factory.class", "ssl.provider", "sasl.client.callback.handler.class",
    "sasl.login.class",
)  # fmt: skip


def is_security_setting(name: str) -> bool:
    return name.startswith(SECURITY_PREFIXES)


def channel_security(
    settings: Mapping[str, str], clock: Clock | None = None, *, token: Callable[[], Secret] | None = None
) -> ChannelSecurity:
    """How connections are protected by these settings; other settings are ignored. Raises ConfigError.

    ``token`` takes the place of the settings that say where the tokens of OAUTHBEARER come from.
    """
    checked = _Settings(settings)
    protocol = (checked.text("security.protocol") or "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return UNPROTECTED
    context = None
    if protocol.endswith("SSL"):
        tls = client_context(_tls_settings(checked))
        context = lambda: tls  # noqa: E731
    login = _login(checked, clock or SystemClock(), token) if protocol.startswith("SASL") else None
    return ChannelSecurity(context, login)


class _Settings:
    """Typed access by Kafka's names."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        given = {
            _ALIASES.get(name, name): text for name, text in settings.items() if is_security_setting(name)
        }
        problems: list[ConfigProblem] = []
        self._values: dict[str, object] = {}
        for name, text in given.items():
            key = _KEYS.get(name)
            if key is None and name not in _OWN:
                problems.append(ConfigProblem(name, None, "no such security setting", "remove it"))
                continue
            if name in _JAVA_ONLY and text:
                problems.append(ConfigProblem(name, text, "it names a Java class", "remove it"))
                continue
            try:
                self._values[name] = Secret(text) if key is None else key.parse(text)
            except InvalidConfig as error:
                problems += error.problems
        if problems:
            raise InvalidConfig(*problems)

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        if isinstance(value, Secret):
            return value.reveal()
        return None if value is None else str(value)

    def secret(self, name: str) -> Secret | None:
        value = self._values.get(name)
        return value if value is None or isinstance(value, Secret) else Secret(str(value))

    def items(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self._values.get(name)
        return value if isinstance(value, tuple) else default


def _tls_settings(settings: _Settings) -> TlsSettings:
    key_store = StoreSettings(
        type=settings.text("ssl.keystore.type") or "JKS",
        location=settings.text("ssl.keystore.location"),
        password=settings.secret("ssl.keystore.password"),
        key=settings.secret("ssl.keystore.key"),
        certificates=settings.secret("ssl.keystore.certificate.chain"),
    )
    certificate, key = settings.text("ssl.certificate.location"), settings.text("ssl.key.location")
    if certificate is not None and key is not None:
        key_store = StoreSettings(
            "PEM", key=Secret(_content(key)), certificates=Secret(_content(certificate))
        )
    return TlsSettings(
        key_store=key_store,
        trust_store=StoreSettings(
            type=settings.text("ssl.truststore.type") or "JKS",
            location=settings.text("ssl.truststore.location"),
            password=settings.secret("ssl.truststore.password"),
            certificates=settings.secret("ssl.truststore.certificates"),
        ),
        key_password=settings.secret("ssl.key.password"),
        protocols=settings.items("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3")),
        cipher_suites=settings.items("ssl.cipher.suites", ()),
        verify_host_name=_verifies_host_name(settings),
    )


def _verifies_host_name(settings: _Settings) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    # Java accepts https in upper case, too; librdkafka writes none for the empty value.
    name = settings.text(key)
    if name is None or name.lower() == "https":
        return True
    if name.lower() in ("", "none"):
        return False
    raise ConfigError(
        f"{key}={name} is not known. Use https, or an empty value to accept the certificate of any host"
    )


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Check the path and its owner") from None


def _login(settings: _Settings, clock: Clock, token: Callable[[], Secret] | None) -> ClientLogin:
    mechanism = (settings.text("sasl.mechanism") or GSSAPI).upper()
    jaas = _jaas(settings)
    if mechanism == PLAIN or mechanism in MECHANISM_OF:
        user, password = settings.text("sasl.username"), settings.secret("sasl.password")
        token_auth = False
        if jaas is not None:
            user, password = jaas.text("username") or user, jaas.options.get("password") or password
            token_auth = jaas.flag("tokenauth")
        if user is None or password is None:
            raise ConfigError(
                f"sasl.mechanism={mechanism} needs a user. Set sasl.username and sasl.password, or "
                "sasl.jaas.config"
            )
        return password_login(mechanism, user, password, token_auth=token_auth)
    if mechanism == OAUTHBEARER:
        return bearer_login(token or token_source(settings, jaas, clock))
    if mechanism == GSSAPI:
        service = settings.text("sasl.kerberos.service.name") or (jaas and jaas.text("serviceName"))
        if not service:
            raise ConfigError("sasl.kerberos.service.name is missing. Set it to the service of the brokers")
        keytab, principal = (jaas.text("keyTab"), jaas.text("principal")) if jaas else (None, None)
        return kerberos_login(service, keytab, principal)
    raise ConfigError(f"sasl.mechanism={mechanism} does not exist. Use one of {', '.join(MECHANISMS)}")


def _jaas(settings: _Settings) -> JaasLogin | None:
    text = settings.secret("sasl.jaas.config")
    if text is None:
        return None
    try:
        return parse_jaas(text)
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from None
