"""``ruslo cluster broker``: show or unregister one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, human_bytes, print_fields, print_json

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.broker_view import BrokerView


@click.group(
    "broker",
    short_help="Show one broker, or have the cluster forget it.",
    epilog=examples("ruslo cluster broker status 3", "ruslo cluster broker unregister 3"),
)
def broker() -> None:
    """Show whether a broker is fenced, or have the cluster forget one that will not come back."""


@broker.command(
    epilog=examples("ruslo cluster broker status 3", "ruslo cluster broker status 3 -o json | jq .fenced")
)
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@bootstrap_option
@output_option
def status(broker_id: int, bootstrap: str, output: str) -> None:
    """Show whether the broker is fenced, and what it leads and holds.

    A fenced broker has not been heard of for broker.session.timeout.ms, has stopped, or is still starting: it
    leads nothing and is in no in-sync set.
    """
    view = with_admin(bootstrap, lambda admin: _the_broker(admin, broker_id))
    if output == "json":
        print_json(view.as_json())
        return
    print_fields(
        [
            ("Broker", view.node.id),
            ("State", view.state),
            ("Address", view.node.address),
            ("Rack", view.node.rack),
            ("Leads", f"{view.leaders} of {view.preferred} that it would by preference"),
            ("Replicas", view.replicas),
            ("Out of sync", view.out_of_sync),
            ("Used", "-" if view.used_bytes is None else human_bytes(view.used_bytes)),
        ]
    )
    if view.fenced and view.replicas:
        hint(f"If it will not come back: ruslo cluster reassign plan --drain {broker_id}")


@broker.command(
    epilog=examples("ruslo cluster broker unregister 3", "ruslo cluster broker unregister 3 --yes")
)
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@bootstrap_option
@click.option("--force", is_flag=True, help="Also if it is alive, or partitions still count on it.")
@yes_option
@output_option
def unregister(broker_id: int, bootstrap: str, force: bool, yes: bool, output: str) -> None:
    """Have the cluster forget a broker that will not come back."""
    view = with_admin(bootstrap, lambda admin: _the_broker(admin, broker_id))
    if not force:
        if not view.fenced:
            raise click.ClickException(
                f"broker {broker_id} is alive and would only register again. Stop it first"
            )
        if view.replicas:
            raise click.ClickException(
                f"{view.replicas} partitions have a replica on broker {broker_id}. Move them first: "
                f"ruslo cluster reassign plan --drain {broker_id} > plan.json. Or add --force"
            )
    confirm(f"Forget broker {broker_id}?", yes)
    with_admin(bootstrap, lambda admin: admin.brokers.unregister(broker_id))
    if output == "json":
        print_json({"broker": broker_id, "unregistered": True})
    else:
        click.echo(f"unregistered broker {broker_id}")


async def _the_broker(admin: Admin, broker_id: int) -> BrokerView:
    from ruslo.client.views.broker_view import describe_brokers
    from ruslo.model.errors import ErrorCode, KafkaError

    views = await describe_brokers(admin)
    for view in views:
        if view.node.id == broker_id:
            return view
    known = ", ".join(str(view.node.id) for view in views)
    raise KafkaError(
        ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}; there are: {known}"
    )
