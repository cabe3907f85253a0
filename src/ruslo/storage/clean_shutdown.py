"""``.kafka_cleanshutdown``: the file that a clean shutdown leaves in a log directory, with the broker epoch.

It is removed before logs are loaded, so a crash of the next run leaves none. With the epoch the broker proves
to the controller at registration that it lost nothing (KIP-966).
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
    """Remove the file and return its broker epoch (-1 if unreadable); None if the file does not exist."""
    path = f"{disk.directory}/{CLEAN_SHUTDOWN}"
    if disk.status(path) is None:
        return None
    data = disk.read_file(path)
    disk.unlink(path)
    disk.sync_directory(disk.directory)
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        # Kafka before 3.7 writes an empty file: a clean shutdown without an epoch.
        return UNKNOWN_BROKER_EPOCH
