"""``ruslo cluster quorum`` and ``ruslo cluster voter``: the controllers, and who of them votes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_fields, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.quorum import Quorum, QuorumReplica


@click.command(epilog=examples("ruslo cluster quorum", "ruslo cluster quorum -o json | jq .leader_id"))
@bootstrap_option
@output_option
def quorum(bootstrap: str, output: str) -> None:
    """Show who leads the metadata log, who votes, and how far behind each node is."""
    found = with_admin(bootstrap, lambda admin: admin.quorum.describe())
    rows = [_as_json(found, each, "voter") for each in found.voters]
    rows += [_as_json(found, each, "observer") for each in found.observers]
    if output == "json":
        print_json(
            {
                "leader_id": found.leader_id,
                "leader_epoch": found.leader_epoch,
                "high_watermark": found.high_watermark,
                "replicas": rows,
            }
        )
        return
    print_fields(
        [
            ("Active controller", found.leader_id),
            ("Epoch", found.leader_epoch),
            ("Committed up to", found.high_watermark),
            ("Voters", [each.replica_id for each in found.voters]),
            ("Observers", [each.replica_id for each in found.observers]),
        ]
    )
    click.echo()
    _print_replicas(rows)


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
    rows = [_as_json(found, each, "voter") for each in found.voters]
    if output == "json":
        print_json(rows)
    else:
        _print_replicas(rows)


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


def _as_json(found: Quorum, each: QuorumReplica, role: str) -> dict[str, object]:
    from ruslo.model.ids import uuid_to_text

    leader_end = max((voter.log_end_offset for voter in found.voters), default=0)
    return {
        "id": each.replica_id,
        "role": "leader" if each.replica_id == found.leader_id and role == "voter" else role,
        "directory_id": uuid_to_text(each.directory_id),
        "endpoints": [
            f"{endpoint.listener_name}://{endpoint.host}:{endpoint.port}"
            for endpoint in found.endpoints.get(each.replica_id, ())
        ]
        if role == "voter"
        else [],
        "log_end_offset": each.log_end_offset,
        "lag": max(leader_end - each.log_end_offset, 0),
        "caught_up_ms_ago": _ms_ago(each.last_caught_up_timestamp_ms),
    }


def _ms_ago(timestamp_ms: int) -> int | None:
    return max(time.time_ns() // 1_000_000 - timestamp_ms, 0) if timestamp_ms >= 0 else None


def _print_replicas(rows: list[dict[str, object]]) -> None:
    print_table(
        ["NODE", "ROLE", "DIRECTORY", "ENDPOINTS", "LOG END", "LAG", "CAUGHT UP"],
        [
            (
                row["id"],
                row["role"],
                row["directory_id"],
                row["endpoints"],
                row["log_end_offset"],
                row["lag"],
                "-" if row["caught_up_ms_ago"] is None else f"{row['caught_up_ms_ago']} ms ago",
            )
            for row in rows
        ],
    )
