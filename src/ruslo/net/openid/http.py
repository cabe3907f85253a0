"""Bounded requests to an identity provider. They block.

They follow no redirects: a secret goes only where it is sent.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from ruslo.net.openid.errors import ProviderUnreachable

REQUEST_TIMEOUT_S = 5.0
MAX_RESPONSE_BYTES = 1024 * 1024


class Response(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Mapping[str, Any]:
        """The JSON object of the body; empty if it holds none."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def request(
    url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """GET, or POST with a form. Raises ProviderUnreachable if there is no response."""
    data = None if form is None else urllib.parse.urlencode(form).encode()
    sent = urllib.request.Request(url, data=data, headers={"Accept": "application/json", **(headers or {})})
    # A new opener reads SSL_CERT_FILE and the proxies of the environment, as the first request would.
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(sent, timeout=REQUEST_TIMEOUT_S) as response:
            return _bounded(url, response.status, response)
    except urllib.error.HTTPError as error:
        with error:
            return _bounded(url, error.code, error)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ProviderUnreachable(
            f"The identity provider at {url} is unreachable: {reason}. Check --oidc-issuer and the network"
        ) from None


def _bounded(url: str, status: int, source: Any) -> Response:
    try:
        body: bytes = source.read(MAX_RESPONSE_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise ProviderUnreachable(f"The response of {url} broke off: {error}") from None
    if len(body) > MAX_RESPONSE_BYTES:
        raise ProviderUnreachable(f"The response of {url} has more than {MAX_RESPONSE_BYTES} bytes")
    return Response(status, body)
