"""The child process behind ``EmbeddedBroker``: its arguments are a property file and a file descriptor.

The bootstrap address is written to the descriptor when clients may connect. The process ends when its stdin
does, so that a test run that was killed leaves no broker behind.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path


def main() -> int:
    from ruslo.broker.garbage import collection_put_off

    with collection_put_off():
        from ruslo.broker.node import Node, run
    from ruslo.config.broker import BrokerConfig
    from ruslo.config.properties import parse_properties
    from ruslo.model.errors import RusloError
    from ruslo.testing.single_node import format_single_node

    properties_path, ready_fd = Path(sys.argv[1]), int(sys.argv[2])

    def ready(node: Node) -> None:
        os.write(ready_fd, node.bootstrap.encode())
        os.close(ready_fd)

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        config = BrokerConfig.from_properties(parse_properties(properties_path.read_text()))
        format_single_node(config)
        return run(config, ready)
    except RusloError as error:
        print(f"the broker cannot start: {error}", file=sys.stderr)
        return 1


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
