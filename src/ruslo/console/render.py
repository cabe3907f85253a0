"""Renders templates. All values are escaped except the console's own markup."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from ruslo.console.formats import FILTERS, Exact, visible
from ruslo.console.request_target import path_and_query, requested_path
from ruslo.console.settings import ConsoleSettings

_HERE = Path(__file__).resolve().parent
STATIC = _HERE / "static"
_VENDOR = ("htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css")


class Renderer:
    def __init__(self, settings: ConsoleSettings, needs_login: bool, user: str | None = None) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=_finalize,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= FILTERS
        self._environment.globals |= {
            "bootstrap": settings.bootstrap,
            "read_only": settings.read_only,
            "needs_login": needs_login,
            "login": settings.login.value,
            "user": user,
            "has_audit_log": bool(settings.audit_logs),
            "has_assets": all((STATIC / "vendor" / name).is_file() for name in _VENDOR),
            "static": _static,
            "link": link,
        }

    def page(self, request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
        return HTMLResponse(self.text(request, template, **values), status)

    def text(self, request: Request, template: str, **values: object) -> str:
        return self._environment.get_template(template).render(
            path=requested_path(request),
            url=path_and_query(request),
            form_token=request.state.form_token,
            **values,
        )


def link(path: str, **query: object) -> str:
    """A path with the non-empty query parameters, both quoted: group names may contain any character."""
    present = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "", False)}
    text = quote(path)
    return f"{text}?{urlencode(present)}" if present else text


def _finalize(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup | Exact) else value


_fingerprints: dict[str, str] = {}


def _static(name: str) -> str:
    """The URL of a static file with a fingerprint, so that browsers may cache it."""
    if name not in _fingerprints:
        _fingerprints[name] = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{_fingerprints[name]}"
