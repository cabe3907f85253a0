"""The staging folder: the driver prepares it, tasks check that they see the same one."""

from __future__ import annotations

import os
import socket
import tempfile
import uuid
from dataclasses import dataclass

from ruslo.model.errors import ConfigError
from ruslo.pipeline.staging.files import open_files

_PROBE = ".ruslo-staging"
"""The file whose content identifies a staging folder."""


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
