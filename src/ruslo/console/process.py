"""The console as a child process: ``python -m ruslo.console.process DESCRIPTOR BOOTSTRAP [FILE]``.

The descriptor is a listening socket. The file contains the settings of a client of a secured cluster: the
console's users then log in as users of that cluster. The process exits at the end of its stdin, so it does
not outlive a killed parent.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path


def main(listener_fd: int, bootstrap: str, client_file: str | None = None) -> int:
    from ruslo.config.properties import parse_properties
    from ruslo.console.serving import serve
    from ruslo.console.settings import ConsoleSettings, Login

    logging.basicConfig(level=logging.WARNING, format="console: %(levelname)s %(message)s")
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    listener = socket.socket(fileno=listener_fd)
    host, port = listener.getsockname()[:2]
    settings = ConsoleSettings(bootstrap, host, port)
    if client_file is not None:
        security = parse_properties(Path(client_file).read_text())
        settings = replace(settings, security=security, login=Login.SASL)
    serve(settings, listener)
    return 0


def _exit_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
