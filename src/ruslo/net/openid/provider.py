"""The identity provider's description of itself (OpenID Connect Discovery)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ruslo.net.openid.errors import OpenIdError

_S256 = "S256"


class Provider(NamedTuple):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_auth_methods: tuple[str, ...] = ("client_secret_basic",)
    names_itself: bool = False
    """Whether its redirects carry the issuer (RFC 9207)."""


def discovery_url(issuer: str) -> str:
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def is_protected(url: str) -> bool:
    """Whether tokens may be sent there: https, or http on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if not host or parts.scheme not in ("https", "http"):
        return False
    if parts.scheme == "https" or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_provider(document: Mapping[str, Any], issuer: str) -> Provider:
    """Raises OpenIdError if the description is of another provider, or lacks what the log-in needs."""
    if document.get("issuer") != issuer:
        raise OpenIdError(
            f"The identity provider at {issuer} calls itself {document.get('issuer')!r}. Set --oidc-issuer "
            "to exactly this name, if it is right"
        )
    urls: dict[str, str] = {}
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        url = document.get(name)
        if not isinstance(url, str) or not is_protected(url):
            raise OpenIdError(f"The identity provider {issuer} has no {name} with https")
        urls[name] = url
    methods = document.get("code_challenge_methods_supported")
    if isinstance(methods, list) and _S256 not in methods:
        raise OpenIdError(f"The identity provider {issuer} does not support PKCE with S256")
    auth_methods = document.get("token_endpoint_auth_methods_supported")
    return Provider(
        issuer,
        urls["authorization_endpoint"],
        urls["token_endpoint"],
        urls["jwks_uri"],
        token_auth_methods=tuple(map(str, auth_methods))
        if isinstance(auth_methods, list)
        else ("client_secret_basic",),
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )
