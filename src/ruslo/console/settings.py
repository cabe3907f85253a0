"""Settings of a console."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from ruslo.client.settings.bootstrap_servers import is_loopback
from ruslo.model.errors import ConfigError
from ruslo.model.scram import MECHANISM_OF
from ruslo.model.secret import Secret
from ruslo.net.openid.exchange import ClientRegistration
from ruslo.net.openid.provider import is_protected
from ruslo.net.sasl.mechanism import OAUTHBEARER, PLAIN

DEFAULT_PORT = 8090
CALLBACK_PATH = "/login/callback"
"""Where the identity provider sends browsers back to."""
_LOGIN_KEYS = ("sasl.jaas.config", "sasl.username", "sasl.password")
_PASSWORD_MECHANISMS = (PLAIN, *MECHANISM_OF)


class Login(enum.StrEnum):
    """How users of the console log in."""

    PASSWORD = "password"
    """With the console's own password, if it has one. All users act as the console's principal."""
    SASL = "sasl"
    """With a user of the cluster. Each user has connections of their own, so their ACLs decide."""
    OIDC = "oidc"
    """With an identity provider (OpenID Connect). The person's access token is the log-in to the cluster."""

    @property
    def is_by_user(self) -> bool:
        """Whether each user has connections of their own."""
        return self is not Login.PASSWORD


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    bootstrap: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 selects a free port."""
    read_only: bool = False
    password: str | None = None
    """Without a password every client may change the cluster, so the host must be a loopback address."""
    host_names: tuple[str, ...] = ()
    """Host names that browsers may use besides localhost and IP addresses."""
    security: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Kafka's security settings of a client (``security.protocol``, ``ssl.*``, ``sasl.*``)."""
    login: Login = Login.PASSWORD
    tls_certificate: str | None = None
    """A PEM file with the certificate chain: the console then serves HTTPS."""
    tls_key: str | None = None
    """A PEM file with the private key of the certificate."""
    openid: ClientRegistration | None = None
    """The console at the identity provider, for ``Login.OIDC``."""
    redirect_uri: str | None = None
    """Where the identity provider sends browsers back to; None: the address that the browser uses."""
    audit_logs: tuple[str, ...] = ()
    """Files of ``ruslo.audit.log`` that the console shows."""

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("HTTPS needs a certificate and its key: set --tls-certificate and --tls-key")
        if self.login is Login.SASL:
            self._check_sasl()
        elif self.login is Login.OIDC:
            self._check_openid()
        elif not is_loopback(self.host) and not self.password:
            raise ConfigError(
                f"{self.host} is reachable from other machines, so the console needs a password: set "
                "RUSLO_CONSOLE_PASSWORD or --password-file, or keep --host at 127.0.0.1"
            )

    def _check_sasl(self) -> None:
        protocol = self.security.get("security.protocol", "PLAINTEXT").upper()
        if not protocol.startswith("SASL") or self.mechanism not in _PASSWORD_MECHANISMS:
            raise ConfigError(
                f"Users can log in with a password of the cluster only over SASL, with one of "
                f"{', '.join(_PASSWORD_MECHANISMS)}. Set security.protocol to SASL_SSL and sasl.mechanism in "
                "the file of --command-config"
            )
        self._check_no_password()

    def _check_openid(self) -> None:
        protocol = self.security.get("security.protocol", "PLAINTEXT").upper()
        if not protocol.startswith("SASL") or self.mechanism != OAUTHBEARER:
            raise ConfigError(
                "Users can log in to the cluster with an access token only over SASL with OAUTHBEARER. Set "
                "security.protocol=SASL_SSL and sasl.mechanism=OAUTHBEARER in the file of --command-config"
            )
        if self.openid is None or not self.openid.issuer or not self.openid.client_id:
            raise ConfigError(
                "--login oidc needs the identity provider. Set --oidc-issuer and --oidc-client-id"
            )
        if "openid" not in self.openid.scopes.split():
            raise ConfigError("--oidc-scopes must include openid: without it there is no ID token. Add it")
        for name, url in (("--oidc-issuer", self.openid.issuer), ("--oidc-redirect-uri", self.redirect_uri)):
            if url is not None and not is_protected(url):
                raise ConfigError(
                    f"{name} {url} is not protected, so tokens could be read. Use https, or http on this "
                    "machine"
                )
        if self.redirect_uri is not None and urlsplit(self.redirect_uri).path != CALLBACK_PATH:
            raise ConfigError(f"--oidc-redirect-uri {self.redirect_uri} must end with {CALLBACK_PATH}")
        self._check_no_password()

    def _check_no_password(self) -> None:
        if self.password:
            raise ConfigError(
                "A console has one kind of log-in: remove its password, or use --login password"
            )

    @property
    def is_https(self) -> bool:
        return self.tls_certificate is not None

    @property
    def mechanism(self) -> str:
        return self.security.get("sasl.mechanism", self.security.get("sasl.mechanisms", "")).upper()

    def of_user(self, user: str, password: Secret) -> ConsoleSettings:
        """The same console, connected to the cluster as this user."""
        shared = {name: value for name, value in self.security.items() if name not in _LOGIN_KEYS}
        own = {"sasl.username": user, "sasl.password": password.reveal()}
        return replace(self, security=shared | own)
