"""Logins of this side of a connection, by mechanism: what a client or a broker authenticates with."""

from __future__ import annotations

import os
from collections.abc import Callable

from ruslo.model.errors import ConfigError
from ruslo.model.scram import MECHANISM_OF
from ruslo.model.secret import Secret
from ruslo.net.sasl.client_exchange import ClientLogin
from ruslo.net.sasl.gssapi import GssapiClient, client_credentials
from ruslo.net.sasl.mechanism import GSSAPI, OAUTHBEARER, PLAIN
from ruslo.net.sasl.oauthbearer import OAuthBearerClient
from ruslo.net.sasl.plain import PlainClient
from ruslo.net.sasl.scram import ScramClient


def password_login(mechanism: str, user: str, password: Secret, *, token_auth: bool = False) -> ClientLogin:
    """PLAIN or SCRAM. ``token_auth``: user and password are the id and the HMAC of a delegation token."""
    if mechanism == PLAIN:
        return ClientLogin(PLAIN, lambda host: PlainClient(user, password))
    scram = MECHANISM_OF[mechanism]
    # Hashing the password takes milliseconds, on purpose.
    return ClientLogin(mechanism, lambda host: ScramClient(scram, user, password, token_auth), blocking=True)


def bearer_login(token: Callable[[], Secret], extensions: dict[str, str] | None = None) -> ClientLogin:
    """OAUTHBEARER. ``token`` returns a valid token, and may fetch it; it raises AuthenticationFailed."""
    return ClientLogin(OAUTHBEARER, lambda host: OAuthBearerClient(token(), extensions or {}), blocking=True)


def kerberos_login(service: str, keytab: str | None = None, principal: str | None = None) -> ClientLogin:
    """GSSAPI, with a key of a keytab or with the tickets of this user. Raises ConfigError."""
    if keytab is not None and not os.access(keytab, os.R_OK):
        raise ConfigError(f"The keytab {keytab} cannot be read. Check the path and its owner")
    credentials = client_credentials(keytab, principal)
    return ClientLogin(GSSAPI, lambda host: GssapiClient(service, host, credentials()), blocking=True)
