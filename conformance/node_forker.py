"""Run commands of Ruslo in forked processes: importing Ruslo is most of what the start of a node costs.

Each line of the input is one order, its fields separated by tabs::

    start LOG_FILE ARGUMENT…     run `ruslo ARGUMENT…`; the response is its process id
    run LOG_FILE ARGUMENT…       run it to its end; the response is its exit code

The process ends with its input. The kernel then kills the nodes (PR_SET_PDEATHSIG): a process id that was
written down could belong to another process by then.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pkgutil
import signal
import sys
from typing import NoReturn

import ruslo
from ruslo.cli.main import main as run_command

_PR_SET_PDEATHSIG = 1
_ROOMS = ("broker", "config", "machines", "model", "net", "protocol", "records", "storage")
_COMMANDS = ("ruslo.cli.serve.serve", "ruslo.cli.storage.storage")


def main() -> None:
    _import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps nodes that have ended
    for line in sys.stdin:
        order, log_file, *arguments = line.rstrip("\n").split("\t")
        print(_start(log_file, arguments) if order == "start" else _run(log_file, arguments), flush=True)


def _import_everything() -> None:
    for room in _ROOMS:
        for module in pkgutil.walk_packages([f"{ruslo.__path__[0]}/{room}"], f"ruslo.{room}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    for name in _COMMANDS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _start(log_file: str, arguments: list[str]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(parent, log_file, arguments, None)
    return pid


def _run(log_file: str, arguments: list[str]) -> int:
    """Ignored children cannot be waited for, so the exit code comes through a pipe."""
    parent = os.getpid()
    reader, writer = os.pipe()
    if os.fork() == 0:
        _become(parent, log_file, arguments, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        response = pipe.read()
    return response[0] if response else 255


def _become(parent: int, log_file: str, arguments: list[str], code_pipe: int | None) -> NoReturn:
    """Run the command in this child process, which ends with it."""
    code = 1
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) or os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        gc.unfreeze()
        sys.argv = ["ruslo", *arguments]
        run_command()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if code_pipe is not None:
            os.write(code_pipe, bytes((code & 0xFF,)))
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
