"""A node as a child process: ``python -m ruslo.broker.process FILE LEVEL DESCRIPTOR``.

The bootstrap address is written to the descriptor when clients may connect. The process ends when its stdin
does, so that a parent that was killed leaves no node behind. Its directories must be formatted.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path


def main(properties_file: str, log_level: str, ready_fd: int) -> int:
    from ruslo.broker.garbage import collection_put_off

    with collection_put_off():
        from ruslo.broker.node import Node, run
    from ruslo.config.broker import BrokerConfig
    from ruslo.config.properties import parse_properties
    from ruslo.model.errors import RusloError

    def ready(node: Node) -> None:
        os.write(ready_fd, node.bootstrap.encode())
        os.close(ready_fd)

    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        config = BrokerConfig.from_properties(parse_properties(Path(properties_file).read_text()))
        _log_to_stderr(log_level, config.node_id)
        return run(config, ready)
    except RusloError as error:
        print(f"the node cannot start: {error}", file=sys.stderr)
        return 1


def _log_to_stderr(level: str, node_id: int) -> None:
    """Several nodes share a terminal: each line says whose it is."""
    formatter = logging.Formatter(
        f"%(asctime)s.%(msecs)03dZ [{node_id}] %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
