"""``ruslo txn abort``: abort the transaction of a partition or of a transactional ID."""

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

_USAGE = (
    "Choose a transaction: use TOPIC PARTITION --start-offset N; or TOPIC PARTITION with --producer-id, "
    "--producer-epoch and --coordinator-epoch; or only --transactional-id ID."
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
    help="First offset of the transaction (see 'ruslo txn find-hanging' and 'ruslo txn producers').",
)
@click.option(
    "--producer-id",
    type=click.IntRange(min=0),
    help="Instead of --start-offset, for brokers without DescribeProducers.",
)
@click.option("--producer-epoch", type=click.IntRange(0, 32767), help="Required with --producer-id.")
@click.option("--coordinator-epoch", type=click.IntRange(min=0), help="Required with --producer-id.")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Abort the open transaction of this ID in all partitions, and fence its producer.",
)
@click.option("--force", is_flag=True, help="With --start-offset: abort even if its coordinator knows it.")
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
    """Abort a hanging transaction of a partition, or the open transaction of a transactional ID.

    In a partition, an abort marker is written: read_committed consumers continue and never see the records of
    the transaction. Use this only for hanging transactions. A transaction that its coordinator knows would be
    aborted in this partition only, so that needs --force.

    With --transactional-id, the coordinator aborts the whole transaction. Its producer gets the fatal error
    PRODUCER_FENCED and must be restarted.
    """
    from ruslo.client.views.txn_abort_plan import MarkerPlan, plan_marker
    from ruslo.client.wire.idempotent import ProducerIdAndEpoch
    from ruslo.model.topics import TopicPartition

    by_hand = (producer_id, producer_epoch, coordinator_epoch)
    ways = (start_offset is not None, any(each is not None for each in by_hand), transactional_id is not None)
    tp = None if topic is None or partition is None else TopicPartition(topic, partition)
    if sum(ways) != 1 or (tp is None) is (transactional_id is None) or (transactional_id and topic):
        raise click.UsageError(_USAGE)
    if force and start_offset is None:
        raise click.UsageError("--force needs --start-offset.")
    if transactional_id is not None:
        _abort_by_id(bootstrap, transactional_id, yes, output)
        return
    assert tp is not None
    if start_offset is not None:
        offset = start_offset
        _abort_in_partition(bootstrap, lambda admin: plan_marker(admin, tp, offset, force), yes, output)
        return
    if producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise click.UsageError("Set all of --producer-id, --producer-epoch and --coordinator-epoch.")
    given = MarkerPlan(tp, ProducerIdAndEpoch(producer_id, producer_epoch), coordinator_epoch)

    async def as_given(admin: Admin) -> MarkerPlan:
        return given

    _abort_in_partition(bootstrap, as_given, yes, output)


def _abort_in_partition(
    bootstrap: str, plan: Callable[[Admin], Awaitable[MarkerPlan]], yes: bool, output: str
) -> None:
    marker = with_admin(bootstrap, plan)
    click.echo(marker.text(), err=True)
    confirm("Write the abort marker?", yes)

    async def write_marker(admin: Admin) -> None:
        # The producer may have continued while the user was asked.
        if await plan(admin) != marker:
            raise click.ClickException(
                "The transaction changed in the meantime; nothing was written. "
                "Run 'ruslo txn producers' to see the open transactions."
            )
        await admin.transactions.write_abort_marker(
            marker.partition, marker.producer, marker.coordinator_epoch
        )

    with_admin(bootstrap, write_marker)
    if output == "json":
        print_json({**marker.as_json(), "status": "aborted"})
    else:
        click.echo(f"aborted the transaction of producer {marker.producer.producer_id} in {marker.partition}")


def _abort_by_id(bootstrap: str, transactional_id: str, yes: bool, output: str) -> None:
    from ruslo.client.views.txn_abort_plan import described_for_abort

    found = with_admin(bootstrap, lambda admin: described_for_abort(admin, transactional_id))
    result: dict[str, object] = {
        "transactional_id": transactional_id,
        "state_before": found.state,
        "partitions": indexes_by_topic(found.partitions),
    }
    if not found.is_open:
        if output == "json":
            print_json({**result, "producer_id": None, "producer_epoch": None, "status": "not-open"})
        else:
            click.echo(f"{transactional_id} has no open transaction ({found.state})")
        return
    partitions = shown_partitions(found.partitions) or "no partition"
    click.echo(
        f"This aborts the transaction of {transactional_id} in {partitions} "
        f"and fences its producer {found.producer_id} (epoch {found.producer_epoch}).",
        err=True,
    )
    confirm("Abort it?", yes)
    producer = with_admin(
        bootstrap, lambda admin: admin.transactions.fence(transactional_id, found.timeout_ms)
    )
    if output == "json":
        print_json({**result, **producer._asdict(), "status": "aborted"})
    else:
        click.echo(
            f"aborted the transaction of {transactional_id}; its new producer ID is {producer.producer_id} "
            f"(epoch {producer.producer_epoch})"
        )
