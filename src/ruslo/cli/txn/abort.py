"""``ruslo txn abort``: end a transaction that hangs in a partition, or take an open one from its producer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json
from ruslo.client.views.partition_lists import shown_partitions
from ruslo.client.wire.by_topic import indexes_by_topic

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.txn_abort_plan import MarkerPlan

_HOW = (
    "Say which transaction: TOPIC PARTITION --start-offset N; or TOPIC PARTITION with --producer-id, "
    "--producer-epoch and --coordinator-epoch; or --transactional-id ID alone."
)


@click.command(
    epilog=examples(
        "ruslo txn abort orders 0 --start-offset 42",
        "ruslo txn abort orders 0 --start-offset 42 --yes -o json",
        "ruslo txn abort orders 0 --producer-id 4001 --producer-epoch 3 --coordinator-epoch 12",
        "ruslo txn abort --transactional-id payments-1",
    )
)
@click.argument("topic", shell_complete=complete_topics, required=False)
@click.argument("partition", type=click.IntRange(min=0), required=False)
@bootstrap_option
@click.option(
    "--start-offset",
    type=click.IntRange(min=0),
    help="Where the transaction begins; 'ruslo txn find-hanging' and 'ruslo txn producers' show it.",
)
@click.option(
    "--producer-id",
    type=click.IntRange(min=0),
    help="Instead of --start-offset, where DescribeProducers is not offered.",
)
@click.option("--producer-epoch", type=click.IntRange(0, 32767), help="Goes with --producer-id.")
@click.option("--coordinator-epoch", type=click.IntRange(min=0), help="Goes with --producer-id.")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Abort what this id has open, in all partitions, and fence its producer.",
)
@click.option("--force", is_flag=True, help="With --start-offset: even if its coordinator knows it.")
@yes_option
@output_option
def abort(
    topic: str | None,
    partition: int | None,
    bootstrap: str,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    transactional_id: str | None,
    force: bool,
    yes: bool,
    output: str,
) -> None:
    """End a transaction that hangs in a partition, or abort the open one of a transactional id.

    In a partition an abort marker is written: readers of committed data go on, and never see the records of
    the transaction. That is only for transactions that hang. One that its coordinator knows would lose its
    records here and keep those elsewhere, so it is refused unless --force is given.

    With --transactional-id the coordinator aborts the transaction as a whole. Its producer gets a fatal error
    (PRODUCER_FENCED) and has to begin anew.
    """
    from ruslo.client.views.txn_abort_plan import MarkerPlan, plan_marker
    from ruslo.client.wire.idempotent import ProducerIdAndEpoch
    from ruslo.model.topics import TopicPartition

    by_hand = (producer_id, producer_epoch, coordinator_epoch)
    ways = (start_offset is not None, any(each is not None for each in by_hand), transactional_id is not None)
    place = None if topic is None or partition is None else TopicPartition(topic, partition)
    if sum(ways) != 1 or (place is None) is (transactional_id is None) or (transactional_id and topic):
        raise click.UsageError(_HOW)
    if force and start_offset is None:
        raise click.UsageError("--force goes with --start-offset.")
    if transactional_id is not None:
        _abort_by_id(bootstrap, transactional_id, yes, output)
        return
    assert place is not None
    if start_offset is not None:
        offset = start_offset
        _abort_in_partition(bootstrap, lambda admin: plan_marker(admin, place, offset, force), yes, output)
        return
    if producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise click.UsageError("--producer-id, --producer-epoch and --coordinator-epoch go together.")
    given = MarkerPlan(place, ProducerIdAndEpoch(producer_id, producer_epoch), coordinator_epoch)

    async def as_given(admin: Admin) -> MarkerPlan:
        return given

    _abort_in_partition(bootstrap, as_given, yes, output)


def _abort_in_partition(
    bootstrap: str, plan: Callable[[Admin], Awaitable[MarkerPlan]], yes: bool, output: str
) -> None:
    marker = with_admin(bootstrap, plan)
    click.echo(marker.text(), err=True)
    confirm("Write the abort marker?", yes)

    async def carry_out(admin: Admin) -> None:
        # Whoever was asked may have thought for a while, and the producer may have gone on meanwhile.
        if await plan(admin) != marker:
            raise click.ClickException(
                "The transaction has changed since it was looked up, nothing was done. "
                "'ruslo txn producers' shows what is open now."
            )
        await admin.transactions.write_abort_marker(
            marker.partition, marker.producer, marker.coordinator_epoch
        )

    with_admin(bootstrap, carry_out)
    if output == "json":
        print_json({**marker.as_json(), "status": "aborted"})
    else:
        click.echo(f"aborted the transaction of producer {marker.producer.producer_id} in {marker.partition}")


def _abort_by_id(bootstrap: str, transactional_id: str, yes: bool, output: str) -> None:
    from ruslo.client.views.txn_abort_plan import described_for_abort

    found = with_admin(bootstrap, lambda admin: described_for_abort(admin, transactional_id))
    answer: dict[str, object] = {
        "transactional_id": transactional_id,
        "state_before": found.state,
        "partitions": indexes_by_topic(found.partitions),
    }
    if not found.is_open:
        if output == "json":
            print_json({**answer, "producer_id": None, "producer_epoch": None, "status": "not-open"})
        else:
            click.echo(f"{transactional_id} has no open transaction ({found.state})")
        return
    places = shown_partitions(found.partitions) or "no partition"
    click.echo(
        f"Aborts the transaction of {transactional_id} in {places} "
        f"and fences its producer {found.producer_id} (epoch {found.producer_epoch}).",
        err=True,
    )
    confirm("Abort it?", yes)
    producer = with_admin(
        bootstrap, lambda admin: admin.transactions.fence(transactional_id, found.timeout_ms)
    )
    if output == "json":
        print_json({**answer, **producer._asdict(), "status": "aborted"})
    else:
        click.echo(
            f"aborted the transaction of {transactional_id}; the id has producer {producer.producer_id} "
            f"(epoch {producer.producer_epoch}) now"
        )
