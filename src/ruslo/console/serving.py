"""Runs the console's web server."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from ruslo.console.settings import ConsoleSettings
from ruslo.model.errors import ConfigError
from ruslo.model.extras import install_extra

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

_SHUTDOWN_TIMEOUT_S = 2


class PortInUse(ConfigError):
    pass


def require_packages() -> None:
    """Raise unless the extra ``console`` is installed; imports nothing."""
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn", "jinja2") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"the console needs {', '.join(missing)}: {install_extra('console')}")


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 selects a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise PortInUse(
            f"the console cannot listen on {host}:{port}: {os.strerror(error.errno or 0).lower()}. "
            "Choose another port, or 0 for any free port"
        ) from error
    return listener


def address_of(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def serve(
    settings: ConsoleSettings, listener: socket.socket, on_ready: Callable[[], None] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM. Raises ConfigError if the certificate cannot be used."""
    import asyncio

    import uvicorn

    from ruslo.console.app import build_app
    from ruslo.console.https_certificate import HttpsCertificate

    certificate = None
    if settings.tls_certificate is not None and settings.tls_key is not None:
        certificate = HttpsCertificate(settings.tls_certificate, settings.tls_key)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            if certificate is not None:
                self.config.ssl = certificate.context
                self._watch = asyncio.create_task(certificate.watch())
            await super().startup(sockets)
            if self.started and on_ready is not None:
                on_ready()

    Server(server_config(build_app(settings))).run([listener])


def server_config(app: ASGIApp) -> uvicorn.Config:
    import uvicorn

    from ruslo.console.connection import ConsoleConnection

    return uvicorn.Config(
        app,
        log_config=None,
        # Lower levels log every invalid request, so a client could fill the log.
        log_level="error",
        access_log=False,
        http=ConsoleConnection,
        ws="none",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )
