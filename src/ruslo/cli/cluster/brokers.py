"""``ruslo cluster brokers``: all brokers with their state and load."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import human_bytes, print_json, print_table


@click.command("brokers", epilog=examples("ruslo cluster brokers", "ruslo cluster brokers -o json"))
@bootstrap_option
@output_option
def brokers(bootstrap: str, output: str) -> None:
    """List all brokers, including fenced ones, with their leaders, replicas and disk usage."""
    from ruslo.client.views.broker_view import describe_brokers

    views = with_admin(bootstrap, describe_brokers)
    if output == "json":
        print_json([view.as_json() for view in views])
        return
    print_table(
        ["BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "PREFERRED", "REPLICAS", "OUT OF SYNC", "USED"],
        [
            (
                view.node.id,
                view.node.address,
                view.node.rack,
                view.state,
                view.leaders,
                view.preferred,
                view.replicas,
                view.out_of_sync,
                "-" if view.used_bytes is None else human_bytes(view.used_bytes),
            )
            for view in views
        ],
    )
