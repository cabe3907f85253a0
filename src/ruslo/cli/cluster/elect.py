"""``ruslo cluster elect``: start leader elections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition


@click.command(
    epilog=examples(
        "ruslo cluster elect preferred --all",
        "ruslo cluster elect preferred --topic orders --topic payments:0-3",
        "ruslo cluster elect unclean --topic orders:2",
    )
)
@click.argument("kind", type=click.Choice(["preferred", "unclean"]))
@bootstrap_option
@scopes_option("Partitions to elect leaders for")
@click.option("--all", "everywhere", is_flag=True, help="Elect leaders for all partitions.")
@yes_option
@output_option
def elect(kind: str, bootstrap: str, scopes: list[Scope], everywhere: bool, yes: bool, output: str) -> None:
    """Elect leaders.

    preferred: the first replica of each partition becomes leader if it is in sync.

    unclean: a partition without a leader gets any replica that is alive as leader. Records that this replica
    does not have are lost.
    """
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.model.errors import ErrorCode

    if bool(scopes) == everywhere:
        raise click.UsageError("Choose the partitions: use either --topic TOPIC[:PARTITIONS] or --all.")
    if kind == "unclean":
        confirm("Elect leaders that may miss records? Missing records are lost permanently.", yes)
    results = with_admin(bootstrap, lambda admin: _run(admin, kind, None if everywhere else scopes))
    unneeded = {
        partition
        for partition, error in results.items()
        if error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED
    }
    failed = {
        partition: error
        for partition, error in results.items()
        if error is not None and partition not in unneeded
    }
    rows = [
        (
            *partition,
            "not needed" if partition in unneeded else "failed" if partition in failed else "elected",
        )
        for partition in results
    ]
    if output == "json":
        print_json(
            [
                {
                    "topic": topic,
                    "partition": number,
                    "status": status.replace(" ", "-"),
                    "error": error.code.name if status == "failed" and error is not None else None,
                }
                for (topic, number, status), error in zip(rows, results.values(), strict=True)
            ]
        )
    elif rows:
        print_table(["TOPIC", "PARTITION", "RESULT"], rows)
    else:
        click.echo("No partition needs an election.")
    fail_for(failed)


async def _run(
    admin: Admin, kind: str, scopes: list[Scope] | None
) -> dict[TopicPartition, KafkaError | None]:
    from ruslo.cli.arguments.partition_scope import partitions_in
    from ruslo.client.admin.leader_elections import ElectionType

    partitions = None if scopes is None else await partitions_in(admin, scopes)
    return await admin.leader_elections.elect(ElectionType[kind.upper()], partitions)
