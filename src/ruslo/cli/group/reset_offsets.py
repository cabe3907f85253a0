"""``ruslo group reset-offsets``: show a plan of new offsets, and commit them with --execute."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.duration import time_ago_ms
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, parsed
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table
from ruslo.client.views.partition_lists import shown_partitions
from ruslo.client.views.position import iso_time_ms

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.group_descriptions import GroupDescription
    from ruslo.client.views.reset_plan import Move, Target
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition


class Plan(NamedTuple):
    moves: list[Move]
    group: GroupDescription | None
    """None if the group does not exist. Committing creates it."""
    deleted: list[TopicPartition]
    """Partitions with committed offsets whose topics were deleted."""
    failed: dict[TopicPartition, KafkaError]

    @property
    def is_blocked(self) -> bool:
        return self.group is not None and self.group.is_active


def _date_time(text: str) -> int:
    try:
        return iso_time_ms(text)
    except ValueError:
        raise ValueError(f"Invalid date and time {text!r}. Write it as 2026-03-01T10:00Z.") from None


@click.command(
    "reset-offsets",
    epilog=examples(
        "ruslo group reset-offsets billing --topic orders --to-earliest",
        "ruslo group reset-offsets billing --topic orders --to-earliest --execute",
        "ruslo group reset-offsets billing --topic orders:0-3 --shift-by -100",
        "ruslo group reset-offsets billing --all-topics --to-datetime 2026-03-01T10:00Z",
        "ruslo group reset-offsets billing --all-topics --by-duration 2h --execute",
        "ruslo group reset-offsets billing --all-topics --to-current --export > offsets.csv",
        "ruslo group reset-offsets billing --from-file offsets.csv --execute",
    ),
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@bootstrap_option
@scopes_option("Partitions")
@click.option("--all-topics", is_flag=True, help="All topics that the group has committed offsets for.")
@click.option("--to-earliest", is_flag=True, help="Reset to the log start offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of the log.")
@click.option("--to-current", is_flag=True, help="Keep the committed offset; useful with --export.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="Reset to this offset.")
@click.option("--shift-by", type=int, metavar="N", help="Shift by N records; a negative N goes back.")
@click.option(
    "--to-timestamp", type=click.IntRange(0), metavar="MS", help="Reset to a timestamp, in ms since 1970."
)
@click.option(
    "--to-datetime",
    callback=parsed(_date_time),
    metavar="TIME",
    help="Reset to a date and time such as 2026-03-01T10:00Z (local time without a zone).",
)
@click.option(
    "--by-duration",
    callback=parsed(time_ago_ms),
    metavar="DURATION",
    help="Reset to this long ago: 2h, 90s, 7d or PT2H30M.",
)
@click.option(
    "--from-file",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="Reset to the offsets in a file written by --export (CSV or JSON).",
)
@click.option("--execute", is_flag=True, help="Commit the new offsets (default: only show them).")
@click.option(
    "--export", is_flag=True, help="Print the new offsets for --from-file, without committing them."
)
@output_option
def reset_offsets(
    name: str,
    bootstrap: str,
    scopes: list[Scope],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_timestamp: int | None,
    to_datetime: int | None,
    by_duration: int | None,
    from_file: TextIO | None,
    execute: bool,
    export: bool,
    output: str,
) -> None:
    """Reset the committed offsets of a group. Without --execute, only show the new offsets.

    With --execute the group must have no members: stop its consumers first. An offset outside of a partition
    is replaced by the log start or end offset.
    """
    from ruslo.client.views import position
    from ruslo.client.views import reset_plan as to

    targets: list[Target] = [
        *([position.AtStart()] if to_earliest else []),
        *([position.BeforeEnd(0)] if to_latest else []),
        *([to.ToCurrent()] if to_current else []),
        *([] if to_offset is None else [position.AtOffset(to_offset)]),
        *([] if shift_by is None else [to.ShiftBy(shift_by)]),
        *(
            position.AtTime(time_ms)
            for time_ms in (to_timestamp, to_datetime, by_duration)
            if time_ms is not None
        ),
    ]
    if from_file is not None:
        targets.append(to.ToGiven(_read(from_file, name)))
    if len(targets) != 1:
        raise click.UsageError(
            "Choose one target: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
            "--to-timestamp, --to-datetime, --by-duration and --from-file."
        )
    if from_file is not None and (scopes or all_topics):
        raise click.UsageError("The file lists the partitions. Remove --topic and --all-topics.")
    if from_file is None and bool(scopes) == all_topics:
        raise click.UsageError(
            "Choose the partitions: use either --topic TOPIC[:PARTITIONS] or --all-topics."
        )
    if execute and export:
        raise click.UsageError("--export only prints the new offsets. Remove --execute.")

    plan = with_admin(bootstrap, lambda admin: _run(admin, name, scopes, targets[0], execute))
    if plan.deleted:
        click.echo(f"Skipped partitions of deleted topics: {shown_partitions(plan.deleted)}", err=True)
    if export:
        _export(plan, output)
    else:
        _print(name, plan, execute, output)
    _conclude(name, plan, execute, export)


def _read(file: TextIO, group_id: str) -> dict[TopicPartition, int]:
    from ruslo.cli.group.offsets_file import parse_offsets
    from ruslo.model.errors import ConfigError

    try:
        return parse_offsets(file.read(), group_id)
    except (ConfigError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from None


async def _run(admin: Admin, name: str, scopes: list[Scope], target: Target, execute: bool) -> Plan:
    from ruslo.cli.group.reset_scope import existing_in
    from ruslo.client.views.reset_plan import ToGiven, make_plan
    from ruslo.client.wire.coordinators import value_of
    from ruslo.model.errors import ErrorCode, KafkaError

    described = (await admin.groups.describe([name]))[name]
    absent = isinstance(described, KafkaError) and described.code == ErrorCode.GROUP_ID_NOT_FOUND
    group = None if absent else value_of(described)
    committed = await admin.group_offsets.fetch(name)
    deleted: list[TopicPartition] = []
    if isinstance(target, ToGiven):
        partitions = sorted(target.offsets)
    else:
        partitions, deleted = await existing_in(admin, name, committed, scopes)
    current = {partition: each.offset for partition, each in committed.items()}
    plan = Plan(await make_plan(admin, partitions, current, target), group, deleted, {})
    if execute and not plan.is_blocked:
        outcomes = await admin.group_offsets.alter(name, {move.partition: move.new for move in plan.moves})
        plan.failed.update({partition: error for partition, error in outcomes.items() if error is not None})
    return plan


def _export(plan: Plan, output: str) -> None:
    from ruslo.cli.group.offsets_file import as_rows, format_csv

    offsets = {move.partition: move.new for move in plan.moves}
    if output == "json":
        print_json(as_rows(offsets))
    else:
        click.echo(format_csv(offsets), nl=False)


def _print(name: str, plan: Plan, execute: bool, output: str) -> None:
    done = execute and not plan.is_blocked
    if output == "json":
        print_json(
            {
                "group_id": name,
                "state": None if plan.group is None else plan.group.state,
                "executed": done and not plan.failed,
                "partitions": [
                    move.as_json()
                    | {
                        "error": plan.failed[move.partition].code.name
                        if move.partition in plan.failed
                        else None
                    }
                    for move in plan.moves
                ],
            }
        )
        return
    if execute and plan.is_blocked:
        return  # A table of new offsets would look like a success.
    print_table(
        ["TOPIC", "PARTITION", "CURRENT", "NEW", "END", "SKIPPED", "REPLAYED", "NOTE"],
        [
            (*move.partition, move.current, move.new, move.end, move.skipped, move.replayed, move.note)
            for move in plan.moves
        ],
    )


def _conclude(name: str, plan: Plan, execute: bool, export: bool) -> None:
    """Report the result and the next step; exit with 1 if the reset failed."""
    from ruslo.cli.terminal.errors import fail_for

    if plan.is_blocked and not export:
        assert plan.group is not None
        count = len(plan.group.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        state = f"Group {name!r} is {plan.group.state} with {members}"
        advice = f"Stop its consumers (see 'ruslo group members {name}'), then run this command again"
        if execute:
            raise click.ClickException(
                f"{state}: offsets can be reset only while the group has no members. {advice}. "
                "A consumer that crashed leaves the group when its session times out."
            )
        click.echo(f"Note: {state}. {advice} with --execute.", err=True)
    elif plan.failed:
        fail_for(dict(sorted(plan.failed.items())))
    elif execute:
        click.echo(f"Reset {len(plan.moves)} offsets of {name}.", err=True)
        hint(f"Show the offsets: ruslo group describe {name}")
    elif not export:
        click.echo("These are the new offsets. Add --execute to commit them.", err=True)
