"""What a request asks for, read from where the server put it.

`Request.url` is not used anywhere: it is put together from the Host header, and a client that writes
``Host: localhost/login?`` would choose the path that is looked at, while the route is chosen by another.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.requests import Request

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def requested_path(request: Request) -> str:
    """The path that the route is chosen by."""
    path = request.scope["path"]
    assert isinstance(path, str)
    return path


def path_and_query(request: Request) -> str:
    """The address of the page within this console, for a link to it."""
    query = request.scope["query_string"].decode("latin-1")
    return quote(requested_path(request)) + (f"?{query}" if query else "")


def requested_host(request: Request) -> str | None:
    """The name or address in the Host header, in lower case; None if that is not one host and a port."""
    values = request.headers.getlist("host")
    found = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    return None if found is None else (found["v6"] or found["name"]).lower()


def client_address(request: Request) -> str:
    return request.client.host if request.client is not None else ""
