"""``ruslo group delete``: delete groups."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json


@click.command(epilog=examples("ruslo group delete billing", "ruslo group delete billing shipping --yes"))
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="Succeed if a group does not exist.")
@yes_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete groups and their committed offsets. The groups must have no members."""
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.model.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} and all committed offsets?", yes)
    results = with_admin(bootstrap, lambda admin: admin.groups.delete(names))
    absent = {
        name
        for name, error in results.items()
        if if_exists and error is not None and error.code == ErrorCode.GROUP_ID_NOT_FOUND
    }
    failed = {name: error for name, error in results.items() if error is not None and name not in absent}
    status = {
        name: "absent" if name in absent else "failed" if name in failed else "deleted" for name in results
    }
    if output == "json":
        print_json(
            [
                {
                    "group_id": name,
                    "status": status[name],
                    "error": failed[name].code.name if name in failed else None,
                }
                for name in results
            ]
        )
    else:
        for name, word in status.items():
            if word != "failed":
                click.echo(f"{word} {name}")
    fail_for(failed)
