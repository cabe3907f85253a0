"""``ruslo group delete``: delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import KafkaError


@click.command(epilog=examples("ruslo group delete billing", "ruslo group delete billing shipping --yes"))
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="Succeed if a group does not exist.")
@yes_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete groups and their committed offsets. The groups must have no members."""
    from ruslo.cli.offsets.group_types import refuse_share_groups
    from ruslo.cli.terminal.deletions import print_deletions
    from ruslo.model.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} and all committed offsets?", yes)

    async def run(admin: Admin) -> dict[str, KafkaError | None]:
        await refuse_share_groups(admin, names, "delete")
        return await admin.groups.delete(names)

    results = with_admin(bootstrap, run)
    print_deletions(results, "group_id", ErrorCode.GROUP_ID_NOT_FOUND if if_exists else None, output)
