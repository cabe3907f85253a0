"""``ruslo txn list``: transactional IDs with the state of their transactions."""

from __future__ import annotations

import click

from ruslo.cli.arguments.duration import parse_duration_ms
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, parsed
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


@click.command(
    "list",
    epilog=examples(
        "ruslo txn list",
        "ruslo txn list --state ongoing --longer-than 5m",
        "ruslo txn list --matching 'payments-.*' -o json | jq -r .[].transactional_id",
        "ruslo txn list --producer-id 4001",
    ),
)
@bootstrap_option
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only IDs in this state. Repeatable.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only the ID with this producer ID. Repeatable.",
)
@click.option(
    "--longer-than",
    "longer_than_ms",
    metavar="DURATION",
    callback=parsed(parse_duration_ms),
    help="Only transactions older than 90s, 5m or PT1H; only open ones unless --state is set.",
)
@click.option(
    "--matching",
    "pattern",
    metavar="REGEX",
    help="Only IDs that match this regular expression (RE2, matched by the brokers).",
)
@output_option
def list_transactions(
    bootstrap: str,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int | None,
    pattern: str | None,
    output: str,
) -> None:
    """List transactional IDs with the state of their last transaction.

    With Apache Kafka, --longer-than needs version 3.8 and --matching needs version 4.1.
    """
    from ruslo.client.admin.transactions import OPEN_STATES

    # Brokers apply the age in every state: completed transactions would be listed as well.
    chosen_states = states or (() if longer_than_ms is None else OPEN_STATES)
    found = with_admin(
        bootstrap,
        lambda admin: admin.transactions.list(
            states=chosen_states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        ),
    )
    if output == "json":
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": each.coordinator_id,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in found
            ]
        )
    elif not found:
        hint("No transactions found. A producer with a transactional.id creates one.")
    else:
        print_table(
            ["TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "STATE"],
            [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in found],
        )
