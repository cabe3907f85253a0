"""The options of an offset reset: which partitions, and where to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from ruslo.cli.arguments.duration import time_ago_ms
from ruslo.cli.arguments.options import parsed
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.client.views.position import iso_time_ms

if TYPE_CHECKING:
    from ruslo.client.views.reset_plan import Target
    from ruslo.model.topics import TopicPartition


class Reset(NamedTuple):
    """The reset that the user requests."""

    scopes: Sequence[Scope]
    """Empty for all topics of the group, and for the partitions that a file lists."""
    target: Target
    execute: bool
    export: bool


def _date_time(text: str) -> int:
    try:
        return iso_time_ms(text)
    except ValueError:
        raise ValueError(f"Invalid date and time {text!r}. Write it as 2026-03-01T10:00Z.") from None


def reset_options(of_group: str, current: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options, which become the parameter ``reset``; the command also has the argument ``name``.

    ``of_group`` names the topics that --all-topics means, ``current`` the offset that --to-current keeps.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def with_reset(
            *,
            name: str,
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
            **others: Any,
        ) -> None:
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
            function(name=name, reset=Reset(scopes, targets[0], execute, export), **others)

        decorated: Callable[..., None] = with_reset
        for option in reversed(_options(of_group, current)):
            decorated = option(decorated)
        return decorated

    return decorate


def _options(of_group: str, current: str) -> list[Callable[[Callable[..., None]], Callable[..., None]]]:
    return [
        scopes_option("Partitions"),
        click.option("--all-topics", is_flag=True, help=f"All topics that {of_group}."),
        click.option("--to-earliest", is_flag=True, help="Reset to the log start offset."),
        click.option("--to-latest", is_flag=True, help="Reset to the end of the log."),
        click.option("--to-current", is_flag=True, help=f"Keep the {current}; useful with --export."),
        click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="Reset to this offset."),
        click.option("--shift-by", type=int, metavar="N", help="Shift by N records; a negative N goes back."),
        click.option(
            "--to-timestamp",
            type=click.IntRange(0),
            metavar="MS",
            help="Reset to a timestamp, in ms since 1970.",
        ),
        click.option(
            "--to-datetime",
            callback=parsed(_date_time),
            metavar="TIME",
            help="Reset to a date and time such as 2026-03-01T10:00Z (local time without a zone).",
        ),
        click.option(
            "--by-duration",
            callback=parsed(time_ago_ms),
            metavar="DURATION",
            help="Reset to this long ago: 2h, 90s, 7d or PT2H30M.",
        ),
        click.option(
            "--from-file",
            type=click.File("r", encoding="utf-8"),
            metavar="FILE",
            help="Reset to the offsets in a file written by --export (CSV or JSON).",
        ),
        click.option("--execute", is_flag=True, help="Set the new offsets (default: only show them)."),
        click.option(
            "--export", is_flag=True, help="Print the new offsets for --from-file, without setting them."
        ),
    ]


def _read(file: TextIO, group_id: str) -> Mapping[TopicPartition, int]:
    from ruslo.cli.offsets.offsets_file import parse_offsets
    from ruslo.model.errors import ConfigError

    try:
        return parse_offsets(file.read(), group_id)
    except (ConfigError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from None
