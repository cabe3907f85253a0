"""``ruslo group list``: the groups of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.group_view import GroupRow


STATES = (
    *("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"),
    *("Stable", "Dead"),
)


TYPES = ("classic", "consumer", "share", "streams")


@click.command(
    "list",
    epilog=examples(
        "ruslo group list",
        "ruslo group list --lag --state stable",
        "ruslo group list --type streams",
        "ruslo group list --type consumer -o json | jq -r .[].group_id",
    ),
)
@bootstrap_option
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only groups in this state. Repeatable.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only groups of this type. Repeatable.",
)
@click.option("--lag", is_flag=True, help="Show the total lag of each group.")
@output_option
def list_groups(
    bootstrap: str, states: tuple[str, ...], types: tuple[str, ...], lag: bool, output: str
) -> None:
    """List the groups of the cluster, of all types: classic, consumer, share and streams."""
    from dataclasses import asdict

    from ruslo.cli.terminal.progress import Progress
    from ruslo.client.views.group_view import list_rows

    progress = Progress()

    def show_progress(known: int, total: int) -> None:
        progress.tick(lambda: f"described {known} of {total} groups", lambda: known / max(total, 1))

    async def gather(admin: Admin) -> list[GroupRow]:
        try:
            return await list_rows(admin, states=states, types=types, with_lag=lag, on_progress=show_progress)
        finally:
            progress.clear()

    rows = with_admin(bootstrap, gather)
    if output == "json":
        print_json([asdict(row) for row in rows])
    elif not rows:
        hint("No groups found. A consumer with a group.id creates one.")
    else:
        headers = ["GROUP", "TYPE", "STATE", "PROTOCOL", "MEMBERS", "COORDINATOR", *(["LAG"] if lag else [])]
        print_table(
            headers,
            [
                (r.group_id, r.type, r.state, r.protocol, r.members, r.coordinator, r.lag)[: len(headers)]
                for r in rows
            ],
        )
