"""TLS and SASL of a node's listeners and of its own connections, from Kafka's properties.

Properties of one listener are ``listener.name.NAME.KEY``, those of one of its mechanisms
``listener.name.NAME.MECHANISM.KEY``. Certificates follow dynamic configs and changed files.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ruslo.broker.security.credentials import Credentials
from ruslo.config.broker import BrokerConfig
from ruslo.config.jaas import JaasLogin, parse_jaas
from ruslo.config.listeners import METRICS_LISTENER_NAME
from ruslo.model.clock import Clock
from ruslo.model.errors import ConfigError
from ruslo.model.scram import MECHANISM_OF
from ruslo.model.secret import Secret
from ruslo.net.channel_security import UNPROTECTED, ChannelSecurity
from ruslo.net.sasl.access_tokens import ClaimRules, TokenValidator, UnsecuredTokenValidator
from ruslo.net.sasl.client_exchange import ClientLogin
from ruslo.net.sasl.gssapi import GssapiServer, library, server_credentials
from ruslo.net.sasl.kerberos_names import KerberosNames
from ruslo.net.sasl.logins import bearer_login, kerberos_login, password_login
from ruslo.net.sasl.mechanism import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, NewServer, ServerMechanismKind
from ruslo.net.sasl.oauth_settings import token_source
from ruslo.net.sasl.oauthbearer import OAuthBearerServer
from ruslo.net.sasl.plain import PlainServer
from ruslo.net.sasl.scram import ScramServer
from ruslo.net.sasl.signing_keys import SigningKeySet
from ruslo.net.server import ListenerSecurity
from ruslo.net.tls.listener_tls import ListenerTls, ReplacementRules
from ruslo.net.tls.principal_mapping import PrincipalMapper
from ruslo.net.tls.settings import ClientAuth, StoreSettings, TlsSettings

if TYPE_CHECKING:
    from ruslo.config.listeners import Endpoint

logger = logging.getLogger(__name__)

PASSWORD_MESSAGE_BYTES = 4 * 1024
"""The largest message of PLAIN and SCRAM; tokens and tickets of other mechanisms are larger."""
_USER_PREFIX = "user_"


class NodeSecurity:
    """The security of all listeners of a node, and of its connections to other nodes."""

    def __init__(
        self, config: BrokerConfig, credentials: Credentials, clock: Clock, metrics: ListenerTls | None = None
    ) -> None:
        """``metrics``: the TLS of the metrics listener, which is open already.

        Raises ConfigError for a listener that cannot be protected as configured.
        """
        self._config = config
        self._credentials = credentials
        self._clock = clock
        self._tls: dict[str, ListenerTls] = {} if metrics is None else {METRICS_LISTENER_NAME: metrics}
        self._keys: list[SigningKeySet] = []
        self._listeners = {each.listener_name: self._listener(each) for each in config.listeners}

    def start(self) -> None:
        for keys in self._keys:
            keys.start()

    async def stop(self) -> None:
        for keys in self._keys:
            await keys.stop()

    def of_listener(self, listener_name: str) -> ListenerSecurity:
        return self._listeners[listener_name]

    # -- certificates that change ----------------------------------------------------------------------------

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if a listener cannot use the certificates of this configuration."""
        for name, tls in self._tls.items():
            tls.check(tls_settings(config.of_listener(name)))

    def reconfigure(self, config: BrokerConfig) -> None:
        self._config = config
        for name, tls in self._tls.items():
            self._replace(name, partial(tls.replace, tls_settings(config.of_listener(name))))

    def replace_changed_files(self) -> None:
        for name, tls in self._tls.items():
            self._replace(name, tls.replace_changed_files)

    def _replace(self, listener_name: str, replace: Callable[[], bool]) -> None:
        try:
            if replace():
                logger.info("listener %s uses new certificates", listener_name)
        except ConfigError as error:
            logger.error("listener %s keeps its certificates: %s", listener_name, error)

    # -- listeners -------------------------------------------------------------------------------------------

    def _listener(self, endpoint: Endpoint) -> ListenerSecurity:
        name, protocol = endpoint.listener_name, endpoint.security_protocol
        try:
            tls = self._listener_tls(name) if protocol.endswith("SSL") else None
            mechanisms = self._mechanisms(name) if protocol.startswith("SASL") else None
        except ConfigError as error:
            raise ConfigError(f"Listener {name} ({protocol}): {error}") from None
        return ListenerSecurity(tls, mechanisms)

    def _listener_tls(self, name: str) -> ListenerTls:
        is_own = name in (self._config.inter_broker_listener_name, *self._config.controller_listener_names)
        tls = self._tls[name] = _listener_tls(self._config.of_listener(name), trusts_itself=is_own)
        return tls

    def _mechanisms(self, name: str) -> Mapping[str, ServerMechanismKind]:
        enabled = self._config.of_listener(name).list("sasl.enabled.mechanisms")
        if not enabled:
            raise ConfigError("sasl.enabled.mechanisms is empty. Enable at least one mechanism")
        return {each: self._mechanism(name, each) for each in enabled}

    def _mechanism(self, listener_name: str, mechanism: str) -> ServerMechanismKind:
        config = self._config.of_listener(listener_name, mechanism)
        new: NewServer
        max_bytes = PASSWORD_MESSAGE_BYTES
        if mechanism == PLAIN:
            users = _plain_users(_jaas(config, listener_name, mechanism))
            new = lambda: PlainServer(users.get)  # noqa: E731
        elif mechanism in MECHANISM_OF:
            scram = MECHANISM_OF[mechanism]
            find = self._credentials.finder(scram)
            new = lambda: ScramServer(scram, find)  # noqa: E731
        elif mechanism == OAUTHBEARER:
            validate = self._token_validator(config)
            max_bytes = config.int("sasl.server.max.receive.size")
            new = lambda: OAuthBearerServer(validate)  # noqa: E731
        elif mechanism == GSSAPI:
            new = _kerberos_server(config, _jaas(config, listener_name, mechanism))
            max_bytes = config.int("sasl.server.max.receive.size")
        else:
            raise ConfigError(
                f"sasl.enabled.mechanisms lists {mechanism}, which does not exist. Use "
                f"{', '.join(MECHANISMS)}"
            )
        return ServerMechanismKind(
            mechanism,
            new,
            max_bytes,
            max_session_ms=config.int("connections.max.reauth.ms"),
            blocking=mechanism == GSSAPI,
        )

    def _token_validator(self, config: BrokerConfig) -> TokenValidator | UnsecuredTokenValidator:
        rules = ClaimRules(
            issuer=config.opt_str("sasl.oauthbearer.expected.issuer"),
            audiences=config.list("sasl.oauthbearer.expected.audience"),
            scope_claim=config.str("sasl.oauthbearer.scope.claim.name"),
            sub_claim=config.str("sasl.oauthbearer.sub.claim.name"),
            required_scopes=frozenset(config.list("ruslo.sasl.oauthbearer.required.scopes")),
            clock_skew_s=config.int("sasl.oauthbearer.clock.skew.seconds"),
        )
        url = config.opt_str("sasl.oauthbearer.jwks.endpoint.url")
        if url is None:
            if config.bool("ruslo.sasl.oauthbearer.allow.unsecured.tokens"):
                return UnsecuredTokenValidator(rules, self._clock.now_ms)
            raise ConfigError(
                "OAUTHBEARER needs the keys of the OAuth provider. Set sasl.oauthbearer.jwks.endpoint.url; "
                "tokens "
                "without a signature are accepted only with "
                "ruslo.sasl.oauthbearer.allow.unsecured.tokens=true, for tests"
            )
        keys = SigningKeySet(
            url,
            self._clock,
            refresh_ms=config.int("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            backoff_ms=config.int("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            max_backoff_ms=config.int("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        )
        self._keys.append(keys)
        return TokenValidator(keys, rules, self._clock.now_ms)

    # -- connections to other nodes --------------------------------------------------------------------------

    @property
    def to_brokers(self) -> ChannelSecurity:
        return self._channel(self._config.inter_broker_listener_name, "sasl.mechanism.inter.broker.protocol")

    @property
    def to_controllers(self) -> ChannelSecurity:
        return self._channel(self._config.controller_listener_names[0], "sasl.mechanism.controller.protocol")

    def _channel(self, listener_name: str, mechanism_key: str) -> ChannelSecurity:
        protocol = self._config.security_protocols.get(listener_name, "PLAINTEXT")
        if protocol == "PLAINTEXT":
            return UNPROTECTED
        try:
            context = self._client_context(listener_name) if protocol.endswith("SSL") else None
            login = None
            if protocol.startswith("SASL"):
                login = self._login(listener_name, self._config.str(mechanism_key))
        except ConfigError as error:
            raise ConfigError(f"Connections to listener {listener_name} ({protocol}): {error}") from None
        return ChannelSecurity(context, login)

    def _client_context(self, listener_name: str) -> Callable[[], ssl.SSLContext]:
        tls = self._tls.get(listener_name)
        if tls is None:
            # A broker without the controller role has no controller listener of its own.
            config = self._config.of_listener(listener_name)
            mapper = PrincipalMapper(config.str("ssl.principal.mapping.rules"))
            tls = self._tls[listener_name] = ListenerTls(tls_settings(config), mapper, ReplacementRules())
        return lambda: tls.client_context

    def _login(self, listener_name: str, mechanism: str) -> ClientLogin:
        config = self._config.of_listener(listener_name, mechanism)
        jaas = _jaas(config, listener_name, mechanism)
        if mechanism == PLAIN or mechanism in MECHANISM_OF:
            user, password = jaas.text("username"), jaas.options.get("password")
            if user is None or password is None:
                raise ConfigError(
                    f"{_jaas_key(listener_name, mechanism)} lacks username or password, with which this node "
                    "logs in"
                )
            return password_login(mechanism, user, password)
        if mechanism == OAUTHBEARER:
            return bearer_login(token_source(_OAuthSettings(config), jaas, self._clock))
        if mechanism == GSSAPI:
            service = config.opt_str("sasl.kerberos.service.name") or jaas.text("serviceName")
            if service is None:
                raise ConfigError(
                    "sasl.kerberos.service.name is missing. Set it to the service of the brokers"
                )
            return kerberos_login(service, jaas.text("keyTab"), jaas.text("principal"))
        raise ConfigError(f"SASL mechanism {mechanism} does not exist. Use one of {', '.join(MECHANISMS)}")


def metrics_tls(config: BrokerConfig) -> ListenerTls | None:
    """The TLS of the metrics listener; None if it serves plain HTTP. Raises ConfigError."""
    protocol, listener = "ruslo.metrics.security.protocol", "ruslo.metrics.listener"
    if config.str(protocol) == "PLAINTEXT" or not config.opt_str(listener):
        return None
    try:
        return _listener_tls(config.of_listener(METRICS_LISTENER_NAME))
    except ConfigError as error:
        raise ConfigError(f"{listener} ({protocol}={config.str(protocol)}): {error}") from None


def _listener_tls(config: BrokerConfig, *, trusts_itself: bool = False) -> ListenerTls:
    """``config``: with the values of the listener."""
    rules = ReplacementRules(config.bool("ssl.allow.dn.changes"), config.bool("ssl.allow.san.changes"))
    mapper = PrincipalMapper(config.str("ssl.principal.mapping.rules"))
    return ListenerTls(tls_settings(config), mapper, rules, trusts_itself=trusts_itself)


class _OAuthSettings:
    """The OAuth properties of a broker that logs in at other brokers."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def text(self, key: str) -> str | None:
        value = self._config.get(key)
        return None if value is None else str(value)

    def secret(self, key: str) -> Secret | None:
        return self._config.secret(key)


def tls_settings(config: BrokerConfig) -> TlsSettings:
    """The TLS settings of a listener."""
    return TlsSettings(
        key_store=StoreSettings(
            type=config.str("ssl.keystore.type"),
            location=config.opt_str("ssl.keystore.location"),
            password=config.secret("ssl.keystore.password"),
            key=config.secret("ssl.keystore.key"),
            certificates=config.secret("ssl.keystore.certificate.chain"),
        ),
        trust_store=StoreSettings(
            type=config.str("ssl.truststore.type"),
            location=config.opt_str("ssl.truststore.location"),
            password=config.secret("ssl.truststore.password"),
            certificates=config.secret("ssl.truststore.certificates"),
        ),
        key_password=config.secret("ssl.key.password"),
        protocols=config.list("ssl.enabled.protocols"),
        cipher_suites=config.list("ssl.cipher.suites"),
        client_auth=ClientAuth(config.str("ssl.client.auth")),
        verify_host_name=bool(config.opt_str("ssl.endpoint.identification.algorithm")),
    )


def _jaas_key(listener_name: str, mechanism: str) -> str:
    return f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _jaas(config: BrokerConfig, listener_name: str, mechanism: str) -> JaasLogin:
    text = config.secret("sasl.jaas.config")
    key = _jaas_key(listener_name, mechanism)
    if text is None:
        raise ConfigError(
            f"{key} is missing. Put the login there; a JAAS file of Java (java.security.auth.login.config) "
            "is not read"
        )
    try:
        return parse_jaas(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def _plain_users(jaas: JaasLogin) -> dict[str, Secret]:
    return {
        name.removeprefix(_USER_PREFIX): password
        for name, password in jaas.options.items()
        if name.startswith(_USER_PREFIX)
    }


def _kerberos_server(config: BrokerConfig, jaas: JaasLogin) -> NewServer:
    keytab, principal = jaas.text("keyTab"), jaas.text("principal")
    if keytab is None or principal is None:
        raise ConfigError("sasl.jaas.config lacks keyTab or principal. Name the key of this broker")
    credentials = server_credentials(keytab, principal)
    realm = principal.rpartition("@")[2]
    names = KerberosNames(config.list("sasl.kerberos.principal.to.local.rules"), lambda: realm)
    assert library() is not None
    return lambda: GssapiServer(credentials, names.user_of)
