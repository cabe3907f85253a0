"""Feature levels as users write and read them."""

from __future__ import annotations

from collections.abc import Sequence


def shown_level(name: str, level: int) -> str:
    """``30 (4.3-IV0)`` for metadata.version, else the number."""
    from ruslo.machines.controller.feature_image import METADATA_VERSION
    from ruslo.machines.controller.records import METADATA_VERSION_NAMES

    if name == METADATA_VERSION and level in METADATA_VERSION_NAMES:
        return f"{level} ({METADATA_VERSION_NAMES[level]})"
    return str(level)


def requested_levels(
    release: str | None, metadata: str | None, features: Sequence[str], *, upgrade: bool
) -> dict[str, int]:
    """The levels that the options name. An upgrade to a release does not change features that it lacks."""
    import click

    from ruslo.machines.controller.feature_image import METADATA_VERSION
    from ruslo.machines.controller.feature_levels import (
        levels_of_release,
        metadata_version_of,
        parse_feature,
    )

    if release is not None:
        if metadata is not None or features:
            raise click.UsageError("--release-version sets all features. Omit --metadata and --feature.")
        levels = levels_of_release(metadata_version_of(release, unstable=True))
        return {name: level for name, level in levels.items() if level > 0 or not upgrade}
    levels = {} if metadata is None else {METADATA_VERSION: metadata_version_of(metadata, unstable=True)}
    for text in features:
        name, level = parse_feature(text)
        if name in levels:
            raise click.UsageError(f"{name} is given twice. Give it once.")
        levels[name] = level
    if not levels:
        raise click.UsageError("Choose what to change: use --release-version, --metadata or --feature.")
    return levels
