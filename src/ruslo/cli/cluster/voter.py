"""``ruslo cluster voter``: list, add and remove voters of the controller quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.cluster.quorum import print_replicas, replica_row
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.quorum import Quorum, QuorumReplica


@click.group(
    "voter",
    short_help="List, add and remove voters of the controller quorum.",
    epilog=examples(
        "ruslo cluster voter list",
        "ruslo cluster voter add 4 --endpoint ctl4:9093",
        "ruslo cluster voter remove 2",
    ),
)
def voter() -> None:
    """List, add and remove voters of the controller quorum (KIP-853)."""


@voter.command(
    "list", epilog=examples("ruslo cluster voter list", "ruslo cluster voter list -o json | jq -r .[].id")
)
@bootstrap_option
@output_option
def list_voters(bootstrap: str, output: str) -> None:
    """List the voters with their directory IDs and addresses."""
    found = with_admin(bootstrap, lambda admin: admin.quorum.describe())
    rows = [replica_row(found, each, "voter") for each in found.voters]
    if output == "json":
        print_json(rows)
    else:
        print_replicas(rows)


@voter.command(
    epilog=examples(
        "ruslo cluster voter add 4 --endpoint ctl4.example.com:9093",
        "ruslo cluster voter add 4 --endpoint ctl4:9093 --directory-id LBXVTOjCTmSPa3FOXXVTsg",
    )
)
@click.argument("node_id", type=click.IntRange(0), metavar="ID")
@bootstrap_option
@click.option("--endpoint", required=True, metavar="HOST:PORT", help="Address of the controller.")
@click.option(
    "--listener",
    metavar="NAME",
    help="Listener name of the controller (default: that of the current voters).",
)
@click.option(
    "--directory-id",
    metavar="ID",
    help="Directory ID of its metadata log (default: as reported to the quorum).",
)
@output_option
def add(
    node_id: int, bootstrap: str, endpoint: str, listener: str | None, directory_id: str | None, output: str
) -> None:
    """Add a running controller to the voters.

    Format the node with --no-initial-controllers and start it first: 'ruslo cluster quorum' then lists it as
    an observer.
    """
    from ruslo.client.settings.bootstrap_servers import parse_bootstrap
    from ruslo.model.ids import uuid_to_text

    address = parse_bootstrap(endpoint, "--endpoint")[0]

    async def run(admin: Admin) -> tuple[str, str]:
        current = await admin.quorum.describe()
        if any(each.replica_id == node_id for each in current.voters) and directory_id is None:
            raise click.ClickException(f"Node {node_id} is already a voter")
        directory = _directory(current.observers, node_id, directory_id, "an observer")
        name = listener or _listener_name(current)
        await admin.quorum.add_voter(node_id, directory, name, address)
        return name, uuid_to_text(directory)

    name, directory = with_admin(bootstrap, run)
    if output == "json":
        print_json({"id": node_id, "directory_id": directory, "listener": name, "endpoint": str(address)})
    else:
        click.echo(f"added voter {node_id} at {address}")
        hint("List the voters: ruslo cluster voter list")


@voter.command(epilog=examples("ruslo cluster voter remove 2", "ruslo cluster voter remove 2 --yes -o json"))
@click.argument("node_id", type=click.IntRange(0), metavar="ID")
@bootstrap_option
@click.option(
    "--directory-id",
    metavar="ID",
    help="Directory ID of its metadata log, if the node ID has several voters.",
)
@yes_option
@output_option
def remove(node_id: int, bootstrap: str, directory_id: str | None, yes: bool, output: str) -> None:
    """Remove a voter. It stays an observer until it is stopped."""
    from ruslo.model.ids import uuid_to_text

    current = with_admin(bootstrap, lambda admin: admin.quorum.describe())
    directory = _directory(current.voters, node_id, directory_id, "a voter")
    left = len(current.voters) - 1
    confirm(f"Remove voter {node_id}? The quorum keeps {left} voter{'' if left == 1 else 's'}.", yes)
    with_admin(bootstrap, lambda admin: admin.quorum.remove_voter(node_id, directory))
    if output == "json":
        print_json({"id": node_id, "directory_id": uuid_to_text(directory), "voters_left": left})
    else:
        click.echo(f"removed voter {node_id}")


def _directory(replicas: Iterable[QuorumReplica], node_id: int, given: str | None, wanted: str) -> bytes:
    from ruslo.model.ids import uuid_from_text

    if given is not None:
        try:
            return uuid_from_text(given)
        except ValueError as error:
            raise click.UsageError(f"--directory-id: {error}") from None
    found = [each.directory_id for each in replicas if each.replica_id == node_id]
    if not found:
        raise click.ClickException(
            f"Node {node_id} is not {wanted} of the quorum (see 'ruslo cluster quorum'). "
            "Wait until the node has started, or set --directory-id"
        )
    if len(found) > 1:
        raise click.ClickException(
            f"Node {node_id} has {len(found)} directory IDs in the quorum. Choose one with --directory-id"
        )
    return found[0]


def _listener_name(current: Quorum) -> str:
    names = {each.listener_name for endpoints in current.endpoints.values() for each in endpoints}
    if len(names) != 1:
        raise click.UsageError("The voters use several listener names. Choose one with --listener NAME.")
    return names.pop()
