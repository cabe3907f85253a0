"""The levels of each feature: what they need, and which of them a release sets (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ruslo.machines.controller.feature_image import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from ruslo.machines.controller.records import (
    ELR_SUPPORTED,
    LATEST_METADATA_VERSION,
    METADATA_VERSION_NAMES,
    METADATA_VERSIONS_WITH_NEW_RECORDS,
    MINIMUM_METADATA_VERSION,
    UNSTABLE_METADATA_VERSION,
)
from ruslo.model.errors import ConfigError

_NOTHING: Mapping[str, int] = MappingProxyType({})


class Level(NamedTuple):
    level: int
    since: int
    """The metadata.version from which a release sets this level."""
    needs: Mapping[str, int] = _NOTHING
    """The least levels of other features."""


LEVELS: Final[Mapping[str, tuple[Level, ...]]] = {
    # In the order in which Apache Kafka lists them.
    KRAFT_VERSION: (Level(1, 21),),
    TRANSACTION_VERSION: (Level(1, 24), Level(2, 24)),
    GROUP_VERSION: (Level(1, 22),),
    ELIGIBLE_LEADER_REPLICAS: (Level(1, 26, {METADATA_VERSION: ELR_SUPPORTED}),),
    SHARE_VERSION: (Level(1, 28),),
    STREAMS_VERSION: (Level(1, 29),),
}
"""The levels above 0 of each feature other than metadata.version."""


def latest_level(name: str) -> int:
    return LEVELS[name][-1].level


def level_of_release(name: str, metadata_version: int) -> int:
    """The level that the release with this metadata.version sets."""
    return max((each.level for each in LEVELS[name] if each.since <= metadata_version), default=0)


def levels_of_release(metadata_version: int) -> dict[str, int]:
    """The levels of all features that the release sets, metadata.version first."""
    levels = {name: level_of_release(name, metadata_version) for name in LEVELS}
    return {METADATA_VERSION: metadata_version, **levels}


def dependencies_of(name: str, level: int) -> Mapping[str, int]:
    """The least levels of other features that a level needs; raises ConfigError if there is no such level."""
    if name == METADATA_VERSION:
        if level not in METADATA_VERSION_NAMES:
            raise ConfigError(
                f"Unknown {METADATA_VERSION} {level}. Choose one from {MINIMUM_METADATA_VERSION} to "
                f"{LATEST_METADATA_VERSION}"
            )
        return _NOTHING
    if name not in LEVELS:
        raise ConfigError(f"Unknown feature {name}. Known are {', '.join((METADATA_VERSION, *LEVELS))}")
    if level == 0:
        return _NOTHING
    for each in LEVELS[name]:
        if each.level == level:
            return each.needs
    raise ConfigError(f"{name} has no level {level}. Choose one from 0 to {latest_level(name)}")


def missing_dependency(name: str, level: int, levels: Mapping[str, int]) -> tuple[str, int] | None:
    """A feature, and its least level, that is too low for this level of a feature."""
    for needed, least in dependencies_of(name, level).items():
        if levels.get(needed, 0) < least:
            return needed, least
    return None


def can_downgrade_metadata(current: int, target: int) -> bool:
    """Whether the records of the lower metadata.version can express all metadata of the current one."""
    return not any(target < version <= current for version in METADATA_VERSIONS_WITH_NEW_RECORDS)


def metadata_version_of(release: str, *, unstable: bool = False) -> int:
    """The level of a release such as ``4.3-IV0``, or ``4.3`` or ``4.3.1`` for the last one of 4.3.

    ``unstable``: also of a release that is not final; a cluster decides whether it accepts its level.
    """
    name = ".".join(release.split(".")[:2])
    latest = UNSTABLE_METADATA_VERSION if unstable else LATEST_METADATA_VERSION
    for level, each in sorted(METADATA_VERSION_NAMES.items(), reverse=True):
        if level <= latest and (each == name or each.startswith(f"{name}-")):
            return level
    newest = METADATA_VERSION_NAMES[latest]
    oldest = METADATA_VERSION_NAMES[MINIMUM_METADATA_VERSION]
    raise ConfigError(f"Unknown release version {release!r}. Choose one from {oldest} to {newest}")


def parse_feature(text: str) -> tuple[str, int]:
    """``name=level``"""
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals or not level.isdecimal():
        raise ConfigError(f"{text!r} is not a feature level. Write name=level, such as transaction.version=2")
    return name, int(level)
