"""``ruslo topic delete``: delete topics."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin


@click.command(epilog=examples("ruslo topic delete orders", "ruslo topic delete orders payments --yes"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="Succeed if a topic does not exist.")
@yes_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete topics and all their records."""
    from ruslo.cli.terminal.deletions import print_deletions
    from ruslo.model.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} and all records?", yes)
    results = with_admin(bootstrap, lambda admin: admin.topics.delete(dict.fromkeys(names)))
    print_deletions(results, "name", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if if_exists else None, output)
