"""``ruslo txn find-hanging``: transactions that no coordinator will ever end."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.duration import length_callback, shown_duration
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.hanging_transactions import HangingTransaction
    from ruslo.model.topics import TopicPartition

COULD_NOT_TELL = 1
SOMETHING_HANGS = 3
"""Exit codes. A probe must be able to tell the alarm from a question without an answer."""


@click.command(
    "find-hanging",
    epilog=examples(
        "ruslo txn find-hanging",
        "ruslo txn find-hanging --topic orders --topic payments:0-3",
        "ruslo txn find-hanging --broker 1 --max-transaction-timeout 1h -o json",
    ),
)
@bootstrap_option
@click.option(
    "--topic",
    "scopes",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    callback=scopes_callback,
    help="Only there, as orders or orders:0,2 or orders:0-3. May be repeated.",
)
@click.option("--broker", type=click.IntRange(min=0), help="Only in partitions that this broker leads.")
@click.option(
    "--max-transaction-timeout",
    "max_timeout_ms",
    metavar="DURATION",
    default="15m",
    show_default=True,
    callback=length_callback,
    help="Pass over transactions with a record younger than this: transaction.max.timeout.ms of the brokers.",
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
    """Find transactions that are open in a partition, but that no coordinator knows of.

    Nobody will end them, and readers of committed data get nothing behind their beginning. Each is shown with
    the command that ends it.

    Exit code 0: nothing hangs. 3: something hangs. 1: that could not be found out.
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
        hint("No transaction hangs.")
    if leaderless:
        click.echo(
            f"Error: could not look into partitions without a leader: {shown_partitions(leaderless)}. "
            "Try again when 'ruslo cluster info' counts none.",
            err=True,
        )
    if found or leaderless:
        ctx.exit(SOMETHING_HANGS if found else COULD_NOT_TELL)


async def _partitions_to_search(
    admin: Admin, scopes: list[Scope], broker: int | None
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Those that can be asked, and those that have nobody to ask."""
    from ruslo.cli.txn.view import partitions_of
    from ruslo.model.topics import TopicPartition

    metadata = await admin.cluster.metadata({scope.topic for scope in scopes} if scopes else None)
    if broker is not None:
        await admin.cluster.connection(broker)  # which says who is there, if it is not
    leaders = {
        TopicPartition(topic.name, each.partition): each.leader_id
        for topic in metadata.topics.values()
        for each in topic.partitions
    }
    chosen = partitions_of(metadata, scopes) if scopes else sorted(leaders)
    if broker is not None:
        return [each for each in chosen if leaders.get(each) == broker], []
    # One that does not exist is left to fail where its leader is looked for.
    return (
        [each for each in chosen if leaders.get(each, 0) >= 0],
        [each for each in chosen if leaders.get(each, 0) < 0],
    )


def abort_command(hanging: HangingTransaction) -> str:
    topic, partition = hanging.open.partition
    return f"ruslo txn abort {shlex.quote(topic)} {partition} --start-offset {hanging.open.start_offset}"


def _address(ctx: click.Context, bootstrap: str) -> str:
    """The option, where the command found the cluster by it and not by what the shell has anyway."""
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
            "TOPIC",
            "PARTITION",
            "PRODUCER",
            "EPOCH",
            "COORDINATOR EPOCH",
            "TXN START",
            "IDLE",
            "TRANSACTIONAL ID",
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
