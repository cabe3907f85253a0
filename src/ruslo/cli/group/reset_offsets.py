"""``ruslo group reset-offsets``: a plan first, and the change itself when told to execute it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.duration import duration_callback
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_callback
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
    """None when the group does not exist; committing makes it."""
    gone: list[TopicPartition]
    """Committed partitions of topics that were deleted."""
    refused: dict[TopicPartition, KafkaError]

    @property
    def is_blocked(self) -> bool:
        return self.group is not None and self.group.is_active


def _date_time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return iso_time_ms(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no date and time, as in 2026-03-01T10:00Z", ctx, param
        ) from None


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
@click.option(
    "--topic",
    "scopes",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    callback=scopes_callback,
    help="What to reset, as orders or orders:0,2 or orders:0-3. May be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the oldest record that is still there.")
@click.option("--to-latest", is_flag=True, help="To the end: skip all that is there.")
@click.option("--to-current", is_flag=True, help="To where it is; useful with --export.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="N records forward, or back when N is negative.")
@click.option("--to-timestamp", type=click.IntRange(0), metavar="MS", help="To a time, in ms since 1970.")
@click.option(
    "--to-datetime",
    callback=_date_time,
    metavar="TIME",
    help="To a date and time, as 2026-03-01T10:00Z; without a zone it is local time.",
)
@click.option(
    "--by-duration",
    callback=duration_callback,
    metavar="DURATION",
    help="To so long ago, as 2h, 90s, 7d or PT2H30M.",
)
@click.option(
    "--from-file",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="To offsets in a file: topic,partition,offset lines or JSON, as --export writes them.",
)
@click.option("--execute", is_flag=True, help="Do it; without this only the plan is shown.")
@click.option("--export", is_flag=True, help="Print the new offsets for --from-file and change nothing.")
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
    """Move a group's offsets. Shows what would change; --execute changes it.

    The group must have no members when it is executed: stop its consumers first. Offsets outside of what a
    partition has become its first or its last.
    """
    from ruslo.client.views import reset_plan as to

    targets: list[Target] = [
        *([to.ToEarliest()] if to_earliest else []),
        *([to.ToLatest()] if to_latest else []),
        *([to.ToCurrent()] if to_current else []),
        *([] if to_offset is None else [to.ToOffset(to_offset)]),
        *([] if shift_by is None else [to.ShiftBy(shift_by)]),
        *(to.ToTime(time_ms) for time_ms in (to_timestamp, to_datetime, by_duration) if time_ms is not None),
    ]
    if from_file is not None:
        targets.append(to.ToGiven(_read(from_file, name)))
    if len(targets) != 1:
        raise click.UsageError(
            "Say where to: exactly one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
            "--to-timestamp, --to-datetime, --by-duration and --from-file."
        )
    if from_file is not None and (scopes or all_topics):
        raise click.UsageError("The file says which partitions: leave --topic and --all-topics out.")
    if from_file is None and bool(scopes) == all_topics:
        raise click.UsageError("Say what to reset: --topic TOPIC[:PARTITIONS], or --all-topics.")
    if execute and export:
        raise click.UsageError("--export only prints the new offsets: leave --execute out.")

    plan = with_admin(bootstrap, lambda admin: _run(admin, name, scopes, targets[0], execute))
    if plan.gone:
        click.echo(f"Left out, the topic is gone: {shown_partitions(plan.gone)}", err=True)
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
    gone: list[TopicPartition] = []
    if isinstance(target, ToGiven):
        partitions = sorted(target.offsets)
    else:
        partitions, gone = await existing_in(admin, name, committed, scopes)
    current = {partition: place.offset for partition, place in committed.items()}
    plan = Plan(await make_plan(admin, partitions, current, target), group, gone, {})
    if execute and not plan.is_blocked:
        outcomes = await admin.group_offsets.alter(name, {move.partition: move.new for move in plan.moves})
        plan.refused.update({partition: error for partition, error in outcomes.items() if error is not None})
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
                "executed": done and not plan.refused,
                "partitions": [
                    move.as_json()
                    | {
                        "error": plan.refused[move.partition].code.name
                        if move.partition in plan.refused
                        else None
                    }
                    for move in plan.moves
                ],
            }
        )
        return
    if execute and plan.is_blocked:
        return  # a table of what did not happen would look like a success
    print_table(
        ["TOPIC", "PARTITION", "CURRENT", "NEW", "END", "SKIPPED", "REPLAYED", "NOTE"],
        [
            (*move.partition, move.current, move.new, move.end, move.skipped, move.replayed, move.note)
            for move in plan.moves
        ],
    )


def _conclude(name: str, plan: Plan, execute: bool, export: bool) -> None:
    """What comes next, or why it was refused (exit code 1)."""
    from ruslo.cli.terminal.errors import fail_for

    if plan.is_blocked and not export:
        assert plan.group is not None
        count = len(plan.group.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        state = f"group {name!r} is {plan.group.state} with {members}"
        advice = f"Stop its consumers ('ruslo group members {name}' shows them), then run this again"
        if execute:
            raise click.ClickException(
                f"{state}: its offsets can be reset only while nobody is in it. {advice}. "
                "A consumer that died leaves when its session times out."
            )
        click.echo(f"Note: {state}. {advice} with --execute.", err=True)
    elif plan.refused:
        fail_for(dict(sorted(plan.refused.items())))
    elif execute:
        click.echo(f"{len(plan.moves)} offsets of {name} were changed.", err=True)
        hint(f"See it: ruslo group describe {name}")
    elif not export:
        click.echo("Nothing was changed: this is the plan. Add --execute to do it.", err=True)
