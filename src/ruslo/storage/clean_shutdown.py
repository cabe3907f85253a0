"""``.kafka_cleanshutdown``: the mark that a log directory was closed in order, with the broker's last epoch.

It is taken away before anything is loaded, so that a crash during the next run finds none. The epoch tells
the controller at registration that nothing was lost (KIP-966).
"""

from __future__ import annotations

import json

from ruslo.storage.disk import Disk

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH = -1


def write_clean_shutdown_file(disk: Disk, broker_epoch: int) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.replace_file(f"{disk.directory}/{CLEAN_SHUTDOWN}", text.encode())


def remove_clean_shutdown_file(disk: Disk) -> int | None:
    """Remove the mark; the broker epoch in it (-1 if unreadable), or None if there was no mark."""
    path = f"{disk.directory}/{CLEAN_SHUTDOWN}"
    if disk.status(path) is None:
        return None
    data = disk.read_file(path)
    disk.unlink(path)
    disk.sync_directory(disk.directory)
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        # Kafka before 3.7 left an empty file: clean, but of no known epoch.
        return UNKNOWN_BROKER_EPOCH
