"""``ruslo txn find-hanging``: open transactions that no coordinator knows."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.duration import parse_duration_ms, shown_duration
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, parsed
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.hanging_transactions import HangingTransaction
    from ruslo.model.topics import TopicPartition

EXIT_UNKNOWN = 1
EXIT_HANGING = 3
"""Exit codes: a probe must distinguish hanging transactions from a failed search."""


@click.command(
    "find-hanging",
    epilog=examples(
        "ruslo txn find-hanging",
        "ruslo txn find-hanging --topic orders --topic payments:0-3",
        "ruslo txn find-hanging --broker 1 --max-transaction-timeout 1h -o json",
    ),
)
@bootstrap_option
@scopes_option("Only these partitions")
@click.option("--broker", type=click.IntRange(min=0), help="Only partitions that this broker leads.")
@click.option(
    "--max-transaction-timeout",
    "max_timeout_ms",
    metavar="DURATION",
    default="15m",
    show_default=True,
    callback=parsed(parse_duration_ms),
    help="Ignore transactions with newer records; use transaction.max.timeout.ms of the brokers.",
)
@output_option
@click.pass_context
def find_hanging(
    ctx: click.Context,
    bootstrap: str,
    scopes: list[Scope],
    broker: int | None,
    max_timeout_ms: int,
    output: str,
) -> None:
    """Find transactions that are open in a partition but unknown to every coordinator.

    No coordinator will end them, and read_committed consumers cannot read past their first offset. Each is
    listed with the command that aborts it.

    Exit code 0: no hanging transactions. 3: some were found. 1: the search failed.
    """

    async def run(admin: Admin) -> tuple[list[HangingTransaction], list[TopicPartition]]:
        from ruslo.cli.txn.view import now_ms
        from ruslo.client.views.hanging_transactions import find_hanging_transactions

        partitions, leaderless = await _partitions_to_search(admin, scopes, broker)
        found = await find_hanging_transactions(
            admin, partitions, written_before_ms=now_ms() - max_timeout_ms
        )
        return found, leaderless

    found, leaderless = with_admin(bootstrap, run)
    commands = [f"{abort_command(each)}{_address(ctx, bootstrap)}" for each in found]
    if output == "json":
        print_json([_as_json(each, command) for each, command in zip(found, commands, strict=True)])
    elif found:
        _print_found(found, commands)
    elif not leaderless:
        hint("No hanging transactions found.")
    if leaderless:
        click.echo(
            f"Error: cannot search partitions without a leader: {shown_partitions(leaderless)}. "
            "Try again when 'ruslo cluster info' reports none.",
            err=True,
        )
    if found or leaderless:
        ctx.exit(EXIT_HANGING if found else EXIT_UNKNOWN)


async def _partitions_to_search(
    admin: Admin, scopes: list[Scope], broker: int | None
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """The partitions with a leader, and those without."""
    from ruslo.cli.txn.view import partitions_of
    from ruslo.model.topics import TopicPartition

    metadata = await admin.cluster.metadata({scope.topic for scope in scopes} if scopes else None)
    if broker is not None:
        await admin.cluster.connection(broker)  # fails and lists the brokers if it does not exist
    leaders = {
        TopicPartition(topic.name, each.partition): each.leader_id
        for topic in metadata.topics.values()
        for each in topic.partitions
    }
    chosen = partitions_of(metadata, scopes) if scopes else sorted(leaders)
    if broker is not None:
        return [each for each in chosen if leaders.get(each) == broker], []
    # A partition that does not exist fails later, in the lookup of its leader.
    return (
        [each for each in chosen if leaders.get(each, 0) >= 0],
        [each for each in chosen if leaders.get(each, 0) < 0],
    )


def abort_command(hanging: HangingTransaction) -> str:
    topic, partition = hanging.open.partition
    return f"ruslo txn abort {shlex.quote(topic)} {partition} --start-offset {hanging.open.start_offset}"


def _address(ctx: click.Context, bootstrap: str) -> str:
    """The --bootstrap-server option, if the user set it on the command line."""
    given = ctx.get_parameter_source("bootstrap") is click.core.ParameterSource.COMMANDLINE
    return f" --bootstrap-server {shlex.quote(bootstrap)}" if given else ""


def _as_json(hanging: HangingTransaction, command: str) -> dict[str, object]:
    from dataclasses import asdict

    from ruslo.cli.txn.view import now_ms, producer_row

    row = producer_row(*hanging.open)
    return {
        **asdict(row),
        "idle_ms": max(0, now_ms() - hanging.open.producer.last_timestamp_ms),
        "transactional_id": hanging.transactional_id,
        "abort_command": command,
    }


def _print_found(found: list[HangingTransaction], commands: list[str]) -> None:
    from ruslo.cli.txn.view import now_ms, producer_row

    now = now_ms()
    rows = [(producer_row(*each.open), each) for each in found]
    print_table(
        [
            *("TOPIC", "PARTITION", "PRODUCER", "EPOCH"),
            *("COORDINATOR EPOCH", "TXN START", "IDLE", "TRANSACTIONAL ID"),
        ],
        [
            (
                row.topic,
                row.partition,
                row.producer_id,
                row.producer_epoch,
                row.coordinator_epoch,
                row.txn_start_offset,
                shown_duration(now - each.open.producer.last_timestamp_ms),
                each.transactional_id,
            )
            for row, each in rows
        ],
    )
    click.echo()
    for command in commands:
        click.echo(command)
