"""``ruslo share list``: the share groups of the cluster."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table

STATES = ("Empty", "Stable", "Dead")


@click.command(
    "list",
    epilog=examples(
        "ruslo share list",
        "ruslo share list --lag --state stable",
        "ruslo share list -o json | jq -r .[].group_id",
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
@click.option("--lag", is_flag=True, help="Show the total lag of each group.")
@output_option
def list_groups(bootstrap: str, states: tuple[str, ...], lag: bool, output: str) -> None:
    """List the share groups of the cluster."""
    from dataclasses import asdict

    from ruslo.client.admin.group_descriptions import SHARE
    from ruslo.client.views.group_view import list_rows

    rows = with_admin(bootstrap, lambda admin: list_rows(admin, states=states, types=(SHARE,), with_lag=lag))
    if output == "json":
        print_json([asdict(row) for row in rows])
    elif not rows:
        hint("No share groups found. A share consumer with a group.id creates one.")
    else:
        headers = ["GROUP", "STATE", "MEMBERS", "COORDINATOR", *(["LAG"] if lag else [])]
        print_table(
            headers,
            [
                (row.group_id, row.state, row.members, row.coordinator, row.lag)[: len(headers)]
                for row in rows
            ],
        )
