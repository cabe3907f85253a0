"""Build hook of Hatch: puts the browser libraries of the console into the wheel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.console_assets import AssetsMissing, ensure_assets


class ConsoleAssetsHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # scripts/bootstrap.py installs them in a working copy
        try:
            ensure_assets()
        except AssetsMissing as error:
            self.app.display_warning(f"The console of this wheel will have no plots: {error}")
