"""Bring the console's two browser libraries, pinned by version and hash, into the package.

    python3 scripts/console_assets.py

They come from the npm registry, whichever one npm is configured for; without npm, from the one that the
environment names (NPM_CONFIG_REGISTRY). None of their code is in this repository: the folder is ignored by
git and travels inside the wheel. Runs with the standard library only. The console works without them, but
shows no plots and reloads whole pages.
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
    """As npm writes it: the algorithm, a dash, the digest of the package file in base64."""
    files: Mapping[str, str]
    """Where in the package, and the name it gets here."""


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
    """They could not be fetched; the message says why and what to do."""


def ensure_assets() -> bool:
    """Fetch what is not there as pinned; whether there was anything to fetch. May raise AssetsMissing."""
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
            raise AssetsMissing(f"npm did not bring {asset.package} within {_TIMEOUT_S} s") from None
        packed = list(Path(folder).glob("*.tgz"))
        if result.returncode != 0 or len(packed) != 1:
            reason = (result.stderr or result.stdout).strip().splitlines()
            raise AssetsMissing(
                f"npm could not bring {asset.package}: {reason[-1] if reason else 'it gave no reason'}"
            )
        return packed[0].read_bytes()


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read()
            return content
    except OSError as error:
        raise AssetsMissing(f"the registry did not give {url.rsplit('/', 1)[-1]}: {error}") from error


def _check(asset: Asset, content: bytes) -> None:
    algorithm, _, wanted = asset.integrity.partition("-")
    found = base64.b64encode(hashlib.new(algorithm, content).digest()).decode()
    if found != wanted:
        raise AssetsMissing(
            f"{asset.package} {asset.version} is not what it was when it was pinned: "
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
    print("console: htmx and uPlot fetched" if fetched else "console: htmx and uPlot are there")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
