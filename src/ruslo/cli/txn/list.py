"""``ruslo txn list``: transactional IDs with the state of their transactions."""

from __future__ import annotations

import click

from ruslo.cli.arguments.duration import length_callback
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
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
    help="Only ids in this state. May be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only the id that has this producer id. May be repeated.",
)
@click.option(
    "--longer-than",
    "longer_than_ms",
    metavar="DURATION",
    callback=length_callback,
    help="Only transactions that began longer ago, as 90s, 5m or PT1H; open ones unless --state is given.",
)
@click.option(
    "--matching",
    "pattern",
    metavar="REGEX",
    help="Only ids that match as a whole (RE2 syntax, matched by the brokers).",
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
    """List the transactional ids of all coordinators, with the state of their last transaction.

    --longer-than needs brokers of Kafka 3.8 or newer, --matching of 4.1.
    """
    from ruslo.client.admin.transactions import OPEN_STATES

    # Brokers compare the time in every state: what ended long ago would be listed as open for long.
    wanted = states or (() if longer_than_ms is None else OPEN_STATES)
    found = with_admin(
        bootstrap,
        lambda admin: admin.transactions.list(
            states=wanted, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
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
        hint("There are no such transactions. A producer with a transactional.id makes one.")
    else:
        print_table(
            ["TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "STATE"],
            [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in found],
        )
