"""``ruslo share describe``: members, offsets, lag and what is in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.offsets.group_types import or_name_the_command
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_fields, print_table, print_views
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.share_group_view import ShareGroupView


@click.command(
    epilog=examples("ruslo share describe invoices", "ruslo share describe invoices refunds -o json")
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_share_groups)
@bootstrap_option
@output_option
def describe(names: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Show members, offsets and lag of a share group, and what its consumers have in flight.

    All records before START are delivered for good; '-' before the first fetch. LAG is the number of records
    that are not delivered for good.

    IN FLIGHT counts the records after START that were delivered, LOCKED those that a consumer holds. OLDEST
    is the age of the oldest lock, DELIVERIES the highest delivery count of a record. These four come from the
    metrics of Ruslo's brokers; '-' if a broker has none or cannot be reached.
    """
    from ruslo.client.views.broker_metrics import BrokerMetrics
    from ruslo.client.views.share_group_view import describe_share_group

    async def gather(admin: Admin) -> list[ShareGroupView]:
        metrics = BrokerMetrics(admin)
        return [
            await or_name_the_command(admin, name, "describe", describe_share_group(admin, name, metrics))
            for name in dict.fromkeys(names)
        ]

    views = with_admin(bootstrap, gather)
    print_views(views, output, _print_view)


def _print_view(view: ShareGroupView) -> None:
    found = view.description
    print_fields(
        [
            ("Group", found.group_id),
            ("State", found.state),
            ("Assignor", found.assignor),
            ("Epoch", f"{found.group_epoch} (assignment {found.assignment_epoch})"),
            ("Coordinator", f"{found.coordinator_id} ({view.coordinator_address})"),
            ("Members", len(found.members)),
            ("Lag", None if view.lag is None else f"{view.lag} records"),
            ("In flight", None if view.in_flight is None else f"{view.in_flight} records"),
        ]
    )
    if view.partitions:
        click.echo()
        print_table(
            [
                *("TOPIC", "PARTITION", "START", "END", "LAG"),
                *("IN FLIGHT", "LOCKED", "OLDEST", "DELIVERIES", "MEMBERS", "ERROR"),
            ],
            [
                (
                    *(row.topic, row.partition, row.start_offset, row.end_offset, row.lag),
                    *(row.in_flight, row.locked, _seconds(row.oldest_lock_s), row.deliveries_max),
                    *(len(row.members), row.error),
                )
                for row in view.partitions
            ],
        )
    if found.members:
        click.echo()
        print_table(
            ["MEMBER", "CLIENT", "HOST", "RACK", "EPOCH", "SUBSCRIPTION", "ASSIGNED"],
            [
                (
                    *(member.member_id, member.client_id, member.host, member.rack_id, member.epoch),
                    member.subscribed_topics,
                    shown_partitions(member.assignment or ()) or None,
                )
                for member in found.members
            ],
        )


def _seconds(age_s: float | None) -> str | None:
    return None if age_s is None else f"{age_s:.1f}s"
