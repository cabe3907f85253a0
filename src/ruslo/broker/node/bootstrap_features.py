"""The initial feature levels of a new cluster, as ``format`` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.controller.feature_image import KRAFT_VERSION, METADATA_VERSION
from ruslo.machines.controller.feature_levels import (
    LEVELS,
    latest_level,
    level_of_release,
    metadata_version_of,
    missing_dependency,
)
from ruslo.machines.controller.features import supported_features
from ruslo.machines.controller.records import LATEST_METADATA_VERSION
from ruslo.machines.raft.voters import KRAFT_VERSION_MAX
from ruslo.model.errors import ConfigError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord


def initial_features(
    release: str | None,
    requested: Iterable[tuple[str, int]],
    *,
    dynamic_quorum: bool,
    unstable: bool = False,
) -> dict[str, int]:
    """Every feature but kraft.version with its level, metadata.version first; raises ConfigError.

    ``dynamic_quorum``: the voters are in the log, which is kraft.version 1. ``unstable``: levels that
    ``unstable.feature.versions.enable`` adds may be requested.
    """
    wanted: dict[str, int] = {}
    for name, level in requested:
        if name in wanted:
            raise ConfigError(f"Feature {name} is given twice. Give it once")
        wanted[name] = level
    if release is not None and METADATA_VERSION in wanted:
        raise ConfigError(
            "metadata.version is given both as a release version and as a feature. Give one of them"
        )
    metadata_version = LATEST_METADATA_VERSION if release is None else metadata_version_of(release)
    metadata_version = wanted.pop(METADATA_VERSION, metadata_version)
    supported = supported_features(unstable=unstable)[METADATA_VERSION]
    if metadata_version not in supported:
        raise ConfigError(
            f"metadata.version {metadata_version} is not supported. Choose one from "
            f"{supported.min_version} to {supported.max_version}"
        )
    _check_kraft_version(wanted.pop(KRAFT_VERSION, None), dynamic_quorum)
    levels = {METADATA_VERSION: metadata_version}
    for name in sorted(LEVELS.keys() - {KRAFT_VERSION}):
        newest = latest_level(name)
        level = wanted.pop(name, level_of_release(name, metadata_version))
        if level > newest:
            raise ConfigError(f"{name} {level} is not supported; the newest level is {newest}")
        levels[name] = level
    if wanted:
        known = ", ".join((METADATA_VERSION, *LEVELS))
        raise ConfigError(f"Unknown feature {', '.join(wanted)}. Supported are {known}")
    for name, level in levels.items():
        missing = missing_dependency(name, level, levels)
        if missing is not None:
            needed, least = missing
            raise ConfigError(f"{name} {level} needs {needed} {least} or later, not {levels[needed]}")
    return levels


def _check_kraft_version(requested: int | None, dynamic_quorum: bool) -> None:
    if requested is None:
        return
    if requested > KRAFT_VERSION_MAX:
        raise ConfigError(f"{KRAFT_VERSION} {requested} is not supported; the newest is {KRAFT_VERSION_MAX}")
    if requested == 0 and dynamic_quorum:
        raise ConfigError(
            f"{KRAFT_VERSION} 0 keeps the voters in controller.quorum.voters. Set that key and omit "
            "--standalone, --initial-controllers and --no-initial-controllers"
        )
    if requested == 1 and not dynamic_quorum:
        raise ConfigError(
            f"{KRAFT_VERSION} 1 keeps the voters in the metadata log. Leave controller.quorum.voters unset "
            "and give --standalone, --initial-controllers or --no-initial-controllers"
        )


def feature_records(levels: Mapping[str, int]) -> list[tuple[Message, int]]:
    """The records of the features; a disabled one has none."""
    return [
        (FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in levels.items() if level > 0
    ]
