"""``ruslo group``: list, describe, members, reset-offsets, delete, delete-offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_callback
from ruslo.cli.completion.names import complete_groups
from ruslo.cli.group.reset_offsets import reset_offsets
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_fields, print_json, print_table
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.group_descriptions import GroupDescription, GroupMember
    from ruslo.client.admin.group_offsets import Outcomes
    from ruslo.client.views.group_view import GroupRow, GroupView
    from ruslo.model.topics import TopicPartition

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead")
TYPES = ("classic", "consumer", "share", "streams")


@click.group(
    short_help="See how far consumers are, reset and delete groups.",
    epilog=examples(
        "ruslo group list --lag",
        "ruslo group describe billing",
        "ruslo group reset-offsets billing --topic orders --to-earliest --execute",
    ),
)
def group() -> None:
    """See how far groups of consumers are, who is in them, reset their offsets, delete them."""


group.add_command(reset_offsets)


@group.command(
    "list",
    epilog=examples(
        "ruslo group list",
        "ruslo group list --lag --state stable",
        "ruslo group list --type consumer -o json | jq -r .[].group_id",
    ),
)
@bootstrap_option
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only groups in this state. May be repeated.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only groups of this type. May be repeated.",
)
@click.option("--lag", is_flag=True, help="Also how many records each group is behind in all.")
@output_option
def list_groups(
    bootstrap: str, states: tuple[str, ...], types: tuple[str, ...], lag: bool, output: str
) -> None:
    """List the groups of all brokers."""
    from dataclasses import asdict

    from ruslo.cli.terminal.progress import Progress
    from ruslo.client.views.group_view import list_rows

    progress = Progress()

    def show_progress(known: int, total: int) -> None:
        progress.tick(lambda: f"described {known} of {total} groups", lambda: known / max(total, 1))

    async def gather(admin: Admin) -> list[GroupRow]:
        try:
            return await list_rows(admin, states=states, types=types, with_lag=lag, on_progress=show_progress)
        finally:
            progress.clear()

    rows = with_admin(bootstrap, gather)
    if output == "json":
        print_json([asdict(row) for row in rows])
    elif not rows:
        hint("There are no such groups. A consumer with a group.id makes one.")
    else:
        headers = ["GROUP", "TYPE", "STATE", "PROTOCOL", "MEMBERS", "COORDINATOR", *(["LAG"] if lag else [])]
        print_table(
            headers,
            [
                (r.group_id, r.type, r.state, r.protocol, r.members, r.coordinator, r.lag)[: len(headers)]
                for r in rows
            ],
        )


@group.command(
    epilog=examples("ruslo group describe billing", "ruslo group describe billing shipping -o json")
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@bootstrap_option
@output_option
def describe(names: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Show how far a group is in every partition, and who reads it.

    LAG counts records up to the end of the partition. SECONDS is the time of the newest record minus the time
    of the next one to be read; '-' where records have no time.
    """
    from ruslo.cli.terminal.progress import Progress
    from ruslo.client.views.group_view import describe_group

    progress = Progress()

    async def gather(admin: Admin) -> list[GroupView]:
        views: list[GroupView] = []
        for name in dict.fromkeys(names):
            views.append(await describe_group(admin, name))
            progress.tick(
                lambda: f"described {len(views)} of {len(names)} groups", lambda: len(views) / len(names)
            )
        progress.clear()
        return views

    views = with_admin(bootstrap, gather)
    if output == "json":
        print_json([view.as_json() for view in views])
        return
    for number, view in enumerate(views):
        if number:
            click.echo()
        _print_view(view)


def _print_view(view: GroupView) -> None:
    found = view.description
    fields: list[tuple[str, object]] = [
        *_head(found),
        ("Coordinator", f"{found.coordinator_id} ({view.coordinator_address})"),
        ("Members", len(found.members)),
        ("Lag", _shown_lag(view)),
    ]
    if view.assignor_error:
        fields.append(("Assignor error", view.assignor_error))
    print_fields(fields)
    if not view.partitions:
        return
    click.echo()
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "SECONDS", "MEMBER", "HOST", "INSTANCE"],
        [
            (
                row.topic,
                row.partition,
                row.committed_offset,
                row.end_offset,
                row.lag,
                row.lag_seconds,
                row.member_id,
                row.host,
                row.instance_id,
            )
            for row in view.partitions
        ],
    )


def _head(found: GroupDescription) -> list[tuple[str, object]]:
    epoch = None
    if found.group_epoch is not None:
        epoch = f"{found.group_epoch} (assignment {found.assignment_epoch})"
    return [
        ("Group", found.group_id),
        ("Type", found.type),
        ("State", found.state),
        ("Assignor", found.assignor),
        ("Epoch", epoch),
    ]


def _shown_lag(view: GroupView) -> str | None:
    if view.lag is None:
        return None
    seconds = "" if view.lag_seconds is None else f", up to {view.lag_seconds:.1f} seconds"
    return f"{view.lag} records{seconds}"


@group.command(epilog=examples("ruslo group members billing", "ruslo group members billing -o json"))
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@bootstrap_option
@output_option
def members(name: str, bootstrap: str, output: str) -> None:
    """Show the members of a group, what they subscribe to and what they are assigned.

    Members of a consumer group (KIP-848) also have an epoch and a target, which they reach step by step.
    """
    from ruslo.client.views.group_view import describe_one, members_json

    found = with_admin(bootstrap, lambda admin: describe_one(admin, name))
    if output == "json":
        print_json(members_json(found))
        return
    print_fields(_head(found))
    if not found.members:
        hint("It has no members at the moment.")
        return
    click.echo()
    if found.type == "classic":
        print_table(
            ["MEMBER", "CLIENT", "HOST", "INSTANCE", "SUBSCRIPTION", "ASSIGNED"],
            [_member_cells(member) for member in found.members],
        )
    else:
        print_table(
            [
                *("MEMBER", "CLIENT", "HOST", "INSTANCE", "SUBSCRIPTION", "ASSIGNED"),
                *("TARGET", "EPOCH", "PROTOCOL", "RACK"),
            ],
            [
                (*_member_cells(m), shown_partitions(m.target or ()) or None, m.epoch, m.protocol, m.rack_id)
                for m in found.members
            ],
        )


def _member_cells(member: GroupMember) -> tuple[object, ...]:
    regex = [f"/{member.subscribed_regex}/"] if member.subscribed_regex else []
    assigned = "(opaque)" if member.assignment is None else shown_partitions(member.assignment) or None
    return (
        member.member_id,
        member.client_id,
        member.host,
        member.instance_id,
        [*member.subscribed_topics, *regex],
        assigned,
    )


@group.command(epilog=examples("ruslo group delete billing", "ruslo group delete billing shipping --yes"))
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="A group that does not exist is no error.")
@yes_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete groups with all their committed offsets. They must have no members."""
    from ruslo.model.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} with all committed offsets?", yes)
    results = with_admin(bootstrap, lambda admin: admin.groups.delete(names))
    absent = {
        name
        for name, error in results.items()
        if if_exists and error is not None and error.code == ErrorCode.GROUP_ID_NOT_FOUND
    }
    failed = {name: error for name, error in results.items() if error is not None and name not in absent}
    status = {
        name: "absent" if name in absent else "failed" if name in failed else "deleted" for name in results
    }
    if output == "json":
        print_json(
            [
                {
                    "group_id": name,
                    "status": status[name],
                    "error": failed[name].code.name if name in failed else None,
                }
                for name in results
            ]
        )
    else:
        for name, word in status.items():
            if word != "failed":
                click.echo(f"{word} {name}")
    _fail_for({name: _explained(error) for name, error in failed.items()})


@group.command(
    "delete-offsets",
    epilog=examples(
        "ruslo group delete-offsets billing --topic orders",
        "ruslo group delete-offsets billing --topic orders:0-3 --topic payments --yes",
        "ruslo group delete-offsets billing --all-topics",
    ),
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@bootstrap_option
@click.option(
    "--topic",
    "scopes",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    callback=scopes_callback,
    help="What to forget, as orders or orders:0,2 or orders:0-3. May be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All that the group has committed.")
@yes_option
@output_option
def delete_offsets(
    name: str, bootstrap: str, scopes: list[Scope], all_topics: bool, yes: bool, output: str
) -> None:
    """Forget what a group has committed. Its consumers then begin where auto.offset.reset tells them."""
    from ruslo.cli.group.reset_scope import committed_in

    if bool(scopes) == all_topics:
        raise click.UsageError("Say what to forget: --topic TOPIC[:PARTITIONS], or --all-topics.")
    what = "all topics" if all_topics else ", ".join(scope.topic for scope in scopes)
    confirm(f"Forget the offsets that {name} has committed for {what}?", yes)

    async def run(admin: Admin) -> Outcomes:
        partitions = committed_in(name, await admin.group_offsets.fetch(name), scopes)
        return await admin.group_offsets.delete(name, partitions)

    outcomes = with_admin(bootstrap, run)
    if output == "json":
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "status": "failed" if error else "deleted",
                    "error": error.code.name if error else None,
                }
                for partition, error in sorted(outcomes.items(), key=_place)
            ]
        )
    else:
        deleted = [partition for partition, error in outcomes.items() if error is None]
        if deleted:
            click.echo(f"deleted offsets of {name}: {shown_partitions(deleted)}")
    _fail_for({str(p): _explained(error) for p, error in sorted(outcomes.items(), key=_place) if error})


def _place(item: tuple[TopicPartition, object]) -> TopicPartition:
    return item[0]


def _explained(error: Exception) -> str:
    from ruslo.cli.terminal.errors import explain

    return explain(error) or str(error)


def _fail_for(failed: dict[str, str]) -> None:
    """One message for each, exit code 1."""
    if failed:
        raise click.ClickException("\n       ".join(f"{name}: {text}" for name, text in failed.items()))
