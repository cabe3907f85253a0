"""``ruslo cluster features version-mapping`` and ``feature-dependencies``: they need no cluster."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.cluster.features.levels import shown_level
from ruslo.cli.terminal.output import print_json, print_table


@click.command(
    "version-mapping",
    epilog=examples(
        "ruslo cluster features version-mapping",
        "ruslo cluster features version-mapping --release-version 4.0 -o json",
    ),
)
@click.option(
    "--release-version", "release", metavar="VERSION", help="The release, such as 4.3 (default: the newest)."
)
@output_option
def version_mapping(release: str | None, output: str) -> None:
    """Show the feature levels that a release sets."""
    from ruslo.machines.controller.feature_levels import levels_of_release, metadata_version_of
    from ruslo.machines.controller.records import LATEST_METADATA_VERSION

    levels = levels_of_release(
        LATEST_METADATA_VERSION if release is None else metadata_version_of(release, unstable=True)
    )
    if output == "json":
        print_json(levels)
    else:
        print_table(["FEATURE", "LEVEL"], [(name, shown_level(name, each)) for name, each in levels.items()])


@click.command(
    "feature-dependencies",
    epilog=examples(
        "ruslo cluster features feature-dependencies --feature eligible.leader.replicas.version=1",
        "ruslo cluster features feature-dependencies --feature metadata.version=30 -o json",
    ),
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    required=True,
    metavar="NAME=LEVEL",
    help="A feature and its level. Repeatable.",
)
@output_option
def feature_dependencies(features: tuple[str, ...], output: str) -> None:
    """Show what levels of other features a level needs."""
    from ruslo.machines.controller.feature_levels import dependencies_of, parse_feature

    found = [(name, level, dependencies_of(name, level)) for name, level in map(parse_feature, features)]
    if output == "json":
        print_json([{"feature": name, "level": level, "needs": dict(needs)} for name, level, needs in found])
        return
    for name, level, needs in found:
        shown = ", ".join(f"{other} {shown_level(other, least)}" for other, least in needs.items())
        click.echo(f"{name} {shown_level(name, level)} needs {shown or 'no other feature'}")
