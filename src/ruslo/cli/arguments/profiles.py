"""Profiles: named clusters, stored as property files in the user's configuration folder.

``$XDG_CONFIG_HOME/ruslo/profiles/NAME.properties`` holds ``bootstrap.servers`` and other client properties;
``…/ruslo/profile`` holds the name of the profile in use.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import click

from ruslo.model.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CHOSEN = "ruslo.cli.profile.profile"
BOOTSTRAP = "bootstrap.servers"


class Profile(NamedTuple):
    name: str
    settings: dict[str, str]


class ProfileStore:
    def __init__(self, folder: Path | None = None) -> None:
        self._folder = config_folder() if folder is None else folder

    def path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"Invalid profile name {name!r}. Use letters, digits, '.', '_' and '-'.")
        return self._folder / "profiles" / f"{name}.properties"

    def names(self) -> list[str]:
        return sorted(path.stem for path in (self._folder / "profiles").glob("*.properties"))

    def read(self, name: str) -> Profile:
        from ruslo.config.properties import decode_properties, parse_properties

        try:
            data = self.path(name).read_bytes()
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none"
            raise ConfigError(
                f"Unknown profile {name!r} (existing profiles: {known}). "
                f"Create it with 'ruslo profile create {name} -b HOST:PORT'."
            ) from None
        try:
            return Profile(name, parse_properties(decode_properties(data)))
        except ConfigError as error:
            raise ConfigError(f"{self.path(name)}: {error}") from None

    def write(self, profile: Profile) -> None:
        from ruslo.config.properties import format_properties

        path = self.path(profile.name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_suffix(".new")
        # The file may hold passwords, so it is created with owner-only permissions.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="ascii") as stream:
            stream.write(format_properties(profile.settings))
        new.replace(path)

    def delete(self, name: str) -> None:
        self.read(name)
        self.path(name).unlink()
        if self.in_use() == name:
            self._in_use_path.unlink()

    def use(self, name: str) -> None:
        self.read(name)
        self._in_use_path.write_text(f"{name}\n")

    def in_use(self) -> str | None:
        try:
            return self._in_use_path.read_text().strip() or None
        except FileNotFoundError:
            return None

    @property
    def _in_use_path(self) -> Path:
        return self._folder / "profile"


def config_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "ruslo"


def choose_profile(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """The callback of ``ruslo --profile``."""
    if value is not None and not ctx.resilient_parsing:
        ctx.meta[_CHOSEN] = value


def chosen_by_flag() -> str | None:
    ctx = click.get_current_context(silent=True)
    name = None if ctx is None else ctx.meta.get(_CHOSEN)
    return name if isinstance(name, str) else None


def active_profile() -> Profile | None:
    """The profile of ``--profile``, else of RUSLO_PROFILE (empty: no profile), else the one in use."""
    store = ProfileStore()
    name = chosen_by_flag() or os.environ.get("RUSLO_PROFILE", store.in_use())
    return store.read(name) if name else None
