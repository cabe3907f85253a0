"""The archive: ``lib`` contains the packages, ``bin/python`` starts the machine's own Python with them."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ruslo.pipeline.pack.distributions import files_of, needed_distributions

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LAUNCHER = f"""\
#!/bin/sh
# {PYTHON} of this machine with the packages of this archive; RUSLO_PYTHON names another one.
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}"
NUMBA_CACHE_DIR="${{TMPDIR:-/tmp}}/ruslo-numba-$(id -u)"
export PYTHONPATH NUMBA_CACHE_DIR
exec "${{RUSLO_PYTHON:-{PYTHON}}}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Packed:
    path: Path
    packages: dict[str, str]
    """Package versions by name."""
    size_bytes: int


def write_archive(path: Path, packages: Iterable[str] = ()) -> Packed:
    """Write the archive under a temporary name, then rename it."""
    found = needed_distributions(packages)
    partial = path.with_name(f"{path.name}.partial")
    with (
        gzip.open(partial, "wb", compresslevel=1) as compressed,
        tarfile.open(fileobj=compressed, mode="w|") as archive,
    ):
        _add_text(archive, "bin/python", _LAUNCHER, mode=0o755)
        for entry in found.values():
            for file, name in files_of(entry):
                archive.add(file, f"lib/{name}", recursive=False)
    partial.replace(path)
    return Packed(path, {name: entry.version for name, entry in found.items()}, path.stat().st_size)


def _add_text(archive: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    data = text.encode()
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))
