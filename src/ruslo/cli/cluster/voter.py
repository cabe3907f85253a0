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
    short_help="List, add and remove voters of the quorum.",
    epilog=examples(
        "ruslo cluster voter list",
        "ruslo cluster voter add 4 --endpoint ctl4:9093",
        "ruslo cluster voter remove 2",
    ),
)
def voter() -> None:
    """List the voters of the quorum of controllers, add one, remove one (KIP-853)."""


@voter.command(
    "list", epilog=examples("ruslo cluster voter list", "ruslo cluster voter list -o json | jq -r .[].id")
)
@bootstrap_option
@output_option
def list_voters(bootstrap: str, output: str) -> None:
    """List the voters with their directory ids and addresses."""
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
@click.option("--endpoint", required=True, metavar="HOST:PORT", help="Where the controller listens.")
@click.option(
    "--listener", metavar="NAME", help="The name of its listener; that of the present voters if not given."
)
@click.option(
    "--directory-id", metavar="ID", help="Of its metadata log; the one it is seen with if not given."
)
@output_option
def add(
    node_id: int, bootstrap: str, endpoint: str, listener: str | None, directory_id: str | None, output: str
) -> None:
    """Make a controller that already follows the metadata log a voter.

    It was formatted with --no-initial-controllers and runs: 'ruslo cluster quorum' lists it as an observer.
    """
    from ruslo.client.settings.bootstrap_servers import parse_bootstrap
    from ruslo.model.ids import uuid_to_text

    address = parse_bootstrap(endpoint, "--endpoint")[0]

    async def run(admin: Admin) -> tuple[str, str]:
        present = await admin.quorum.describe()
        if any(each.replica_id == node_id for each in present.voters) and directory_id is None:
            raise click.ClickException(f"node {node_id} is a voter already")
        directory = _directory(present.observers, node_id, directory_id, "an observer")
        name = listener or _listener_name(present)
        await admin.quorum.add_voter(node_id, directory, name, address)
        return name, uuid_to_text(directory)

    name, directory = with_admin(bootstrap, run)
    if output == "json":
        print_json({"id": node_id, "directory_id": directory, "listener": name, "endpoint": str(address)})
    else:
        click.echo(f"added voter {node_id} at {address}")
        hint("See it: ruslo cluster voter list")


@voter.command(epilog=examples("ruslo cluster voter remove 2", "ruslo cluster voter remove 2 --yes -o json"))
@click.argument("node_id", type=click.IntRange(0), metavar="ID")
@bootstrap_option
@click.option("--directory-id", metavar="ID", help="Of its metadata log, where an id votes twice.")
@yes_option
@output_option
def remove(node_id: int, bootstrap: str, directory_id: str | None, yes: bool, output: str) -> None:
    """Take a voter's vote away. It goes on as an observer until it is stopped."""
    from ruslo.model.ids import uuid_to_text

    present = with_admin(bootstrap, lambda admin: admin.quorum.describe())
    directory = _directory(present.voters, node_id, directory_id, "a voter")
    left = len(present.voters) - 1
    confirm(f"Remove voter {node_id}? {left} {'is' if left == 1 else 'are'} left.", yes)
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
            f"node {node_id} is not {wanted} of the quorum now ('ruslo cluster quorum' shows who is). "
            "If it is only not seen yet, wait until it runs, or give --directory-id"
        )
    if len(found) > 1:
        raise click.ClickException(
            f"node {node_id} is there with {len(found)} directories: say which with --directory-id"
        )
    return found[0]


def _listener_name(present: Quorum) -> str:
    names = {each.listener_name for endpoints in present.endpoints.values() for each in endpoints}
    if len(names) != 1:
        raise click.UsageError("The name of the controllers' listener is not clear: give --listener NAME.")
    return names.pop()
