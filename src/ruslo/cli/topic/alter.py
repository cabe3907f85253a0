"""``ruslo topic alter``: change configs of a topic."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, pairs_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.config_changes import config_changes, print_config_changes


@click.command(
    epilog=examples(
        "ruslo topic alter orders --set retention.ms=86400000",
        "ruslo topic alter orders --unset retention.ms",
    )
)
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs_callback,
    help="Set a config. Repeatable.",
)
@click.option(
    "--unset", "removed", multiple=True, metavar="KEY", help="Reset a config to its default. Repeatable."
)
@click.option("--validate-only", is_flag=True, help="Validate the change without applying it.")
@output_option
def alter(
    name: str,
    bootstrap: str,
    settings: dict[str, str],
    removed: tuple[str, ...],
    validate_only: bool,
    output: str,
) -> None:
    """Change configs of a topic. 'ruslo config' does the same for any resource."""
    from ruslo.client.admin.configs import Resource

    if not settings and not removed:
        raise click.UsageError("Nothing to change. Use --set KEY=VALUE or --unset KEY.")
    resource, changes = Resource.topic(name), config_changes(settings, removed)
    with_admin(bootstrap, lambda admin: admin.configs.alter(resource, changes, validate_only=validate_only))
    print_config_changes(resource, changes, validate_only, output)
