"""The tokens of a person, from a response of the token endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ruslo.model.secret import Secret
from ruslo.net.openid.errors import OpenIdError
from ruslo.net.sasl.oauth_tokens import expiry_ms

_LIFETIME_MAX_S = 1e9


class Tokens(NamedTuple):
    access: Secret
    issued_at_ms: int
    expires_at_ms: int | None
    """When the access token expires; None if the provider does not say."""
    refresh: Secret | None
    id: Secret | None


def parse_tokens(response: Mapping[str, Any], now_ms: int, refresh: Secret | None = None) -> Tokens:
    """``refresh``: the refresh token in use, which stays valid if the response has no new one."""
    access = response.get("access_token")
    if not isinstance(access, str) or not access:
        raise OpenIdError("The response of the identity provider has no access token")
    if str(response.get("token_type", "")).lower() != "bearer":
        raise OpenIdError("The identity provider issued an access token that is not of the type Bearer")
    lifetime_s = _seconds(response.get("expires_in"))
    stated = [] if lifetime_s is None else [now_ms + int(lifetime_s * 1000)]
    # The brokers read the expiry in the token itself.
    own = expiry_ms(Secret(access))
    return Tokens(
        Secret(access),
        now_ms,
        min([*stated, *([own] if own else [])], default=None),
        _secret(response, "refresh_token") or refresh,
        _secret(response, "id_token"),
    )


def _seconds(value: object) -> float | None:
    """Some providers send the number as a text."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < _LIFETIME_MAX_S else None


def _secret(response: Mapping[str, Any], name: str) -> Secret | None:
    value = response.get(name)
    return Secret(value) if isinstance(value, str) and value else None
