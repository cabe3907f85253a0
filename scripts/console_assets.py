"""Fetch the two browser libraries of the console, pinned by version and hash.

    python3 scripts/console_assets.py

They come from the registry that npm is configured for, or, without npm, from NPM_CONFIG_REGISTRY. Git ignores
their folder, and the wheel includes it. The script needs only the standard
library. Without the libraries, the console shows no plots and reloads whole pages.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

VENDOR = Path(__file__).resolve().parent.parent / "src" / "ruslo" / "console" / "static" / "vendor"
_TIMEOUT_S = 120


class Asset(NamedTuple):
    package: str
    version: str
    integrity: str
    """The format of npm: the algorithm, a dash, and the base64 digest of the package file."""
    files: Mapping[str, str]
    """Path in the package, and the local file name."""


ASSETS = (
    Asset(
        "htmx.org",
        "2.0.8",
        "sha512-fm297iru0iWsNJlBrjvtN7V9zjaxd+69Oqjh4F/Vq9Wwi2kFisLcrLCiv5oBX0KLfOX/zG8AUo9ROMU5XUB44Q==",
        {"package/dist/htmx.min.js": "htmx.min.js", "package/LICENSE": "htmx.LICENSE"},
    ),
    Asset(
        "uplot",
        "1.6.32",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {
            "package/dist/uPlot.iife.min.js": "uPlot.iife.min.js",
            "package/dist/uPlot.min.css": "uPlot.min.css",
            "package/LICENSE": "uPlot.LICENSE",
        },
    ),
)


class AssetsMissing(Exception):
    """The libraries could not be fetched; the message contains the reason and the fix."""


def ensure_assets() -> bool:
    """Fetch missing or outdated libraries; True if there were any. Raises AssetsMissing."""
    missing = [asset for asset in ASSETS if not _is_present(asset)]
    for asset in missing:
        content = _fetch(asset)
        _check(asset, content)
        _unpack(asset, content)
    return bool(missing)


def _stamp(asset: Asset) -> Path:
    return VENDOR / f"{asset.package}.version"


def _is_present(asset: Asset) -> bool:
    stamp = _stamp(asset)
    return (
        stamp.is_file()
        and stamp.read_text() == asset.integrity
        and all((VENDOR / name).is_file() for name in asset.files.values())
    )


def _fetch(asset: Asset) -> bytes:
    registry = os.environ.get("NPM_CONFIG_REGISTRY")
    if shutil.which("npm") is not None:
        return _npm_pack(asset)
    if registry:
        return _download(f"{registry.rstrip('/')}/{asset.package}/-/{asset.package}-{asset.version}.tgz")
    raise AssetsMissing(
        "npm is not installed and NPM_CONFIG_REGISTRY names no registry: install npm, or name one"
    )


def _npm_pack(asset: Asset) -> bytes:
    with tempfile.TemporaryDirectory(prefix="ruslo-assets-") as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder]
        try:
            result = subprocess.run(
                [*command, f"{asset.package}@{asset.version}"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise AssetsMissing(f"npm did not fetch {asset.package} within {_TIMEOUT_S} s") from None
        packed = list(Path(folder).glob("*.tgz"))
        if result.returncode != 0 or len(packed) != 1:
            reason = (result.stderr or result.stdout).strip().splitlines()
            raise AssetsMissing(
                f"npm failed to fetch {asset.package}: {reason[-1] if reason else 'no reason given'}"
            )
        return packed[0].read_bytes()


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read()
            return content
    except OSError as error:
        raise AssetsMissing(f"the registry did not return {url.rsplit('/', 1)[-1]}: {error}") from error


def _check(asset: Asset, content: bytes) -> None:
    algorithm, _, wanted = asset.integrity.partition("-")
    found = base64.b64encode(hashlib.new(algorithm, content).digest()).decode()
    if found != wanted:
        raise AssetsMissing(
            f"{asset.package} {asset.version} differs from the pinned version: "
            f"its {algorithm} is {found}, not {wanted}"
        )


def _unpack(asset: Asset, content: bytes) -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for inside, name in asset.files.items():
            member = archive.extractfile(inside)
            assert member is not None, f"{inside} is a file of the package whose hash was checked"
            (VENDOR / name).write_bytes(member.read())
    _stamp(asset).write_text(asset.integrity)


def main() -> int:
    try:
        fetched = ensure_assets()
    except AssetsMissing as error:
        print(f"console: {error}", file=sys.stderr)
        return 1
    print("console: htmx and uPlot fetched" if fetched else "console: htmx and uPlot are up to date")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
