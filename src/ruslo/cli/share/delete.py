"""``ruslo share delete``: delete share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import KafkaError


@click.command(epilog=examples("ruslo share delete invoices", "ruslo share delete invoices refunds --yes"))
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_share_groups)
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="Succeed if a group does not exist.")
@yes_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete share groups, their offsets and the state of their records. They must have no members."""
    from ruslo.cli.offsets.group_types import refuse
    from ruslo.cli.terminal.deletions import print_deletions
    from ruslo.client.admin.group_descriptions import SHARE
    from ruslo.client.views.group_types import describe_any
    from ruslo.model.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} and the state of their records?", yes)

    async def run(admin: Admin) -> dict[str, KafkaError | None]:
        for name in names:
            found = await describe_any(admin, name)
            if found is not None and found.type != SHARE:
                refuse(found, "delete")
        return await admin.groups.delete(names)

    results = with_admin(bootstrap, run)
    print_deletions(results, "group_id", ErrorCode.GROUP_ID_NOT_FOUND if if_exists else None, output)
