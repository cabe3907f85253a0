"""The path, query and host of a request.

`Request.url` is not used: it includes the Host header, so a client that sends ``Host: localhost/login?``
would make the guard check another path than the router uses.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.requests import Request

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def requested_path(request: Request) -> str:
    """The path that the router uses."""
    path = request.scope["path"]
    assert isinstance(path, str)
    return path


def path_and_query(request: Request) -> str:
    """The path and query of the page, for links."""
    query = request.scope["query_string"].decode("latin-1")
    return quote(requested_path(request)) + (f"?{query}" if query else "")


def requested_host(request: Request) -> str | None:
    """The host name or address in the Host header, in lower case; None if the header is invalid."""
    values = request.headers.getlist("host")
    found = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    return None if found is None else (found["v6"] or found["name"]).lower()


def client_address(request: Request) -> str:
    return request.client.host if request.client is not None else ""
