"""The console as a child process: ``python -m ruslo.console.process BOOTSTRAP DESCRIPTOR``.

The descriptor is a listening socket. The process exits at the end of its stdin, so it does not outlive a
killed parent.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading


def main(bootstrap: str, listener_fd: int) -> int:
    from ruslo.console.serving import serve
    from ruslo.console.settings import ConsoleSettings

    logging.basicConfig(level=logging.WARNING, format="console: %(levelname)s %(message)s")
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    listener = socket.socket(fileno=listener_fd)
    host, port = listener.getsockname()[:2]
    serve(ConsoleSettings(bootstrap, host, port), listener)
    return 0


def _exit_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
