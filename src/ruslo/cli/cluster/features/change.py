"""``ruslo cluster features upgrade``, ``downgrade`` and ``disable``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import (
    F,
    bootstrap_option,
    confirm,
    examples,
    output_option,
    yes_option,
)
from ruslo.cli.cluster.features.levels import requested_levels, shown_level
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.client.admin.features import UpgradeType

_feature_option = click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="A feature and its new level. Repeatable.",
)
_dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Let the controller check the change, but do not make it."
)
_unsafe_option = click.option("--unsafe", is_flag=True, help="Lower levels even if metadata is lost.")


def _target_options(function: F) -> F:
    function = click.option(
        "--metadata", metavar="VERSION", help="The new metadata.version by its name, such as 4.2-IV1."
    )(_feature_option(function))
    return click.option(
        "--release-version", "release", metavar="VERSION", help="Set all features as this release does: 4.3."
    )(function)


@click.command(
    epilog=examples(
        "ruslo cluster features upgrade --release-version 4.3 --dry-run",
        "ruslo cluster features upgrade --metadata 4.3-IV0 --feature transaction.version=2",
    )
)
@bootstrap_option
@_target_options
@_dry_run_option
@output_option
def upgrade(
    bootstrap: str,
    release: str | None,
    metadata: str | None,
    features: tuple[str, ...],
    dry_run: bool,
    output: str,
) -> None:
    """Raise feature levels: all of them or none.

    Every broker and controller must support them. Records of a higher metadata.version may be unreadable for
    older releases: see 'downgrade'.
    """
    from ruslo.client.admin.features import UpgradeType

    levels = requested_levels(release, metadata, features, upgrade=True)
    _update(bootstrap, levels, UpgradeType.UPGRADE, dry_run, output)


@click.command(
    epilog=examples(
        "ruslo cluster features downgrade --release-version 4.2 --dry-run",
        "ruslo cluster features downgrade --feature transaction.version=1",
    )
)
@bootstrap_option
@_target_options
@_unsafe_option
@_dry_run_option
@yes_option
@output_option
def downgrade(
    bootstrap: str,
    release: str | None,
    metadata: str | None,
    features: tuple[str, ...],
    unsafe: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Lower feature levels: all of them or none.

    metadata.version goes down only if the lower one can express all metadata. From 4.3-IV0 it cannot.
    """
    levels = requested_levels(release, metadata, features, upgrade=False)
    _confirm_unsafe(unsafe and not dry_run, yes)
    _update(bootstrap, levels, _downgrade_type(unsafe), dry_run, output)


@click.command(
    epilog=examples(
        "ruslo cluster features disable --feature streams.version --dry-run",
        "ruslo cluster features disable --feature streams.version",
    )
)
@bootstrap_option
@click.option(
    "--feature", "features", multiple=True, metavar="NAME", help="The feature to disable. Repeatable."
)
@_unsafe_option
@_dry_run_option
@yes_option
@output_option
def disable(
    bootstrap: str, features: tuple[str, ...], unsafe: bool, dry_run: bool, yes: bool, output: str
) -> None:
    """Set features to level 0: all of them or none."""
    if not features:
        raise click.UsageError("Choose what to disable: use --feature NAME.")
    _confirm_unsafe(unsafe and not dry_run, yes)
    _update(bootstrap, dict.fromkeys(features, 0), _downgrade_type(unsafe), dry_run, output)


def _downgrade_type(unsafe: bool) -> UpgradeType:
    from ruslo.client.admin.features import UpgradeType

    return UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE


def _confirm_unsafe(unsafe: bool, yes: bool) -> None:
    if unsafe:
        confirm("Lower the levels even if metadata is lost?", yes)


def _update(
    bootstrap: str, levels: Mapping[str, int], upgrade_type: UpgradeType, dry_run: bool, output: str
) -> None:
    with_admin(bootstrap, lambda admin: admin.features.update(levels, upgrade_type, validate_only=dry_run))
    if output == "json":
        print_json({"changed": not dry_run, "levels": dict(levels)})
        return
    verb = "can become" if dry_run else "is now"
    for name, level in levels.items():
        click.echo(f"{name} {verb} {shown_level(name, level)}")
