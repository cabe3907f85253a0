"""The staging folder: the driver prepares and clears it, tasks check that they see the same one."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import uuid
from dataclasses import dataclass
from typing import Final

from ruslo.model.errors import ConfigError
from ruslo.pipeline.staging.files import open_files
from ruslo.pipeline.staging.identity import BatchIdentity

_PROBE = ".ruslo-staging"
"""The file whose content identifies a staging folder."""
_ABANDONED_AFTER_S: Final = 7 * 24 * 3600.0
"""Longer than any task stages without writing a byte: it is unknown whether a remote driver is alive."""
_STAGING_FOLDER: Final = re.compile(
    r"[a-zA-Z0-9._-]+-(job-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
"""The folders of batch jobs and of queries; users may keep other files beside them."""


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """``token`` is the content of the probe file as the driver read it."""

    location: str
    token: str

    @classmethod
    def prepare(cls, location: str | None) -> StagingFolder:
        """Called on the driver. The default is a temporary folder, which works on one machine only."""
        location = location or f"{tempfile.gettempdir()}/ruslo-staging-{os.getuid()}"
        try:
            open_files(location).create_once(_PROBE, uuid.uuid4().hex.encode())
            return cls(location, _read_probe(location))
        except OSError as error:
            raise ConfigError(f"stagingPath={location} cannot be used by the driver: {error}") from error

    def check_shared(self) -> None:
        """Called in a task: raise unless this machine sees the driver's folder."""
        try:
            found = _read_probe(self.location)
        except OSError as error:
            found = f"{error}"
        if found != self.token:
            raise ConfigError(
                f"executor {socket.gethostname()} does not see the driver's staging folder {self.location}: "
                "set option stagingPath to a folder that the driver and all executors share (NFS, s3://…, "
                "hdfs://…), or raise stagingMemory so that less data needs files"
            )


def check_prepared(location: str) -> None:
    """Called in a task that does not know the driver's token: raise unless a driver prepared the folder."""
    if open_files(location).size(_PROBE) is None:
        raise ConfigError(
            f"{socket.gethostname()} does not see the staging folder {location} that the sink has prepared: "
            "set option stagingPath of source and sink to a folder that the driver and all executors share"
        )


def _read_probe(location: str) -> str:
    probe = open_files(location).open(_PROBE)
    try:
        return probe.read_at(64, 0).decode(errors="replace")
    finally:
        probe.close()


def remove_written(location: str, identity: BatchIdentity) -> None:
    """Remove the staging of this batch and all earlier ones, including files of killed tasks and drivers."""
    files = open_files(location)
    for name in files.list(identity.query_folder):
        if name.isdecimal() and int(name) <= identity.batch_id:
            files.remove(f"{identity.query_folder}/{name}")


def remove_abandoned(location: str, now_s: float) -> None:
    """Remove what jobs and queries staged that were killed and never restarted.

    A query removes its own files when it is restarted; a batch job has another name each time and cannot.
    """
    files = open_files(location)
    for name in files.list(""):
        if _STAGING_FOLDER.fullmatch(name):
            touched_s = files.touched_s(name)
            if touched_s is not None and now_s - touched_s > _ABANDONED_AFTER_S:
                files.remove(name)
