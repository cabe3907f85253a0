"""The redirect to the identity provider and the one back, with state, nonce and PKCE (RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from ruslo.net.openid.errors import LoginRefused, OpenIdError
from ruslo.net.openid.provider import Provider

_REASON_MAX = 300


class Authorization(NamedTuple):
    """The secrets of one log-in."""

    state: str
    """Returns with the redirect, so a redirect that another site makes up is recognized."""
    nonce: str
    """Returns in the ID token, so a token of another log-in is recognized."""
    verifier: str
    """Only its hash is in the redirect, so a code that leaks is useless without it."""


def code_challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def authorization_url(
    provider: Provider, client_id: str, redirect_uri: str, scopes: str, authorization: Authorization
) -> str:
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": scopes,
        "state": authorization.state,
        "nonce": authorization.nonce,
        "code_challenge": code_challenge(authorization.verifier),
        "code_challenge_method": "S256",
    }
    separator = "&" if "?" in provider.authorization_endpoint else "?"
    return f"{provider.authorization_endpoint}{separator}{urlencode(query)}"


def is_state_of(authorization: Authorization, state: str) -> bool:
    return hmac.compare_digest(authorization.state.encode(), state.encode())


def code_of(query: Mapping[str, str], provider: Provider) -> str:
    """The code in a redirect whose state is right. Raises OpenIdError."""
    issuer = query.get("iss")
    if issuer not in (None, provider.issuer) or (issuer is None and provider.names_itself):
        raise OpenIdError("The response is not from the identity provider of this console")
    error = query.get("error")
    if error:
        description = query.get("error_description", "")
        reason = f"{error}: {description}" if description else error
        raise LoginRefused(f"The identity provider refused the log-in ({reason[:_REASON_MAX]})")
    code = query.get("code")
    if not code:
        raise OpenIdError("The response of the identity provider has no code")
    return code
