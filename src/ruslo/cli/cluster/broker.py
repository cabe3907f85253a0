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
    short_help="Show or unregister one broker.",
    epilog=examples("ruslo cluster broker status 3", "ruslo cluster broker unregister 3"),
)
def broker() -> None:
    """Show the state of a broker, or unregister one that will not return."""


@broker.command(
    epilog=examples("ruslo cluster broker status 3", "ruslo cluster broker status 3 -o json | jq .fenced")
)
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@bootstrap_option
@output_option
def status(broker_id: int, bootstrap: str, output: str) -> None:
    """Show the state of a broker, its leaders and replicas.

    A fenced broker has sent no heartbeat for broker.session.timeout.ms, has stopped, or is still starting. It
    leads no partition and is in no ISR.
    """
    view = with_admin(bootstrap, lambda admin: _find_broker(admin, broker_id))
    if output == "json":
        print_json(view.as_json())
        return
    print_fields(
        [
            ("Broker", view.node.id),
            ("State", view.state),
            ("Address", view.node.address),
            ("Rack", view.node.rack),
            ("Leaders", f"{view.leaders} (preferred leader of {view.preferred})"),
            ("Replicas", view.replicas),
            ("Out of sync", view.out_of_sync),
            ("Used", "-" if view.used_bytes is None else human_bytes(view.used_bytes)),
        ]
    )
    if view.fenced and view.replicas:
        hint(f"If it will not return: ruslo cluster reassign plan --drain {broker_id}")


@broker.command(
    epilog=examples("ruslo cluster broker unregister 3", "ruslo cluster broker unregister 3 --yes")
)
@click.argument("broker_id", type=click.IntRange(0), metavar="ID")
@bootstrap_option
@click.option("--force", is_flag=True, help="Even if it is alive or still hosts replicas.")
@yes_option
@output_option
def unregister(broker_id: int, bootstrap: str, force: bool, yes: bool, output: str) -> None:
    """Unregister a broker that will not return."""
    view = with_admin(bootstrap, lambda admin: _find_broker(admin, broker_id))
    if not force:
        if not view.fenced:
            raise click.ClickException(f"Broker {broker_id} is alive and would register again. Stop it first")
        if view.replicas:
            raise click.ClickException(
                f"Broker {broker_id} still hosts {view.replicas} replicas. Move them first with "
                f"'ruslo cluster reassign plan --drain {broker_id} > plan.json', or add --force"
            )
    confirm(f"Unregister broker {broker_id}?", yes)
    with_admin(bootstrap, lambda admin: admin.brokers.unregister(broker_id))
    if output == "json":
        print_json({"broker": broker_id, "unregistered": True})
    else:
        click.echo(f"unregistered broker {broker_id}")


async def _find_broker(admin: Admin, broker_id: int) -> BrokerView:
    from ruslo.client.views.broker_view import describe_brokers
    from ruslo.model.errors import ErrorCode, KafkaError

    views = await describe_brokers(admin)
    for view in views:
        if view.node.id == broker_id:
            return view
    known = ", ".join(str(view.node.id) for view in views)
    raise KafkaError(
        ErrorCode.BROKER_ID_NOT_REGISTERED, f"Unknown broker {broker_id}; the brokers are {known}"
    )
