"""``ruslo topic delete``: delete topics."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json


@click.command(epilog=examples("ruslo topic delete orders", "ruslo topic delete orders payments --yes"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="Succeed if a topic does not exist.")
@yes_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete topics and all their records."""
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.model.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} and all records?", yes)
    results = with_admin(bootstrap, lambda admin: admin.topics.delete(dict.fromkeys(names)))
    absent = {
        name
        for name, error in results.items()
        if if_exists and error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    status = {
        name: "absent" if name in absent else "deleted" if error is None else "failed"
        for name, error in results.items()
    }
    if output == "json":
        print_json(
            [
                {
                    "name": name,
                    "status": status[name],
                    "error": error.code.name if error and name not in absent else None,
                }
                for name, error in results.items()
            ]
        )
    else:
        for name, word in status.items():
            if word != "failed":
                click.echo(f"{word} {name}")
    fail_for({name: error for name, error in results.items() if error is not None and name not in absent})
