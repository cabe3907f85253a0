"""A node as a child process: ``python -m ruslo.broker.node.process FILE LEVEL DESCRIPTOR``.

The bootstrap address is written to the descriptor when clients may connect. The process ends with its stdin,
so a killed parent leaves no node behind. Its directories must be formatted.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path


def main(properties_file: str, log_level: str, ready_fd: int) -> int:
    from ruslo.broker.node.garbage import collection_disabled

    with collection_disabled():
        from ruslo.broker.node.node import Node, run
    from ruslo.broker.node.log_lines import log_to_stderr
    from ruslo.config.broker import BrokerConfig
    from ruslo.config.properties import parse_properties
    from ruslo.model.errors import RusloError

    def ready(node: Node) -> None:
        os.write(ready_fd, node.bootstrap.encode())
        os.close(ready_fd)

    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        config = BrokerConfig.from_properties(parse_properties(Path(properties_file).read_text()))
        log_to_stderr(log_level, config.str("ruslo.log.format"), config.node_id)
        return run(config, ready)
    except RusloError as error:
        print(f"The node cannot start: {error}", file=sys.stderr)
        return 1


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
