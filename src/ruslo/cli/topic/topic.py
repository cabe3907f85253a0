"""``ruslo topic``: create, list, describe, alter, delete, add-partitions, delete-records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import (
    bootstrap_option,
    confirm,
    examples,
    output_option,
    pairs_callback,
    yes_option,
)
from ruslo.cli.arguments.position import position_callback
from ruslo.cli.completion.names import complete_topics
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, human_bytes, print_fields, print_json, print_table
from ruslo.client.views.position import AtOffset, AtStart, AtTime, BeforeEnd, Position

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.topics import CreatedTopic
    from ruslo.client.views.topic_view import TopicView
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition


@click.group(
    short_help="Create, list, describe, change and delete topics.",
    epilog=examples("ruslo topic create orders --partitions 3", "ruslo topic list"),
)
def topic() -> None:
    """Create, list, describe, change and delete topics."""


@topic.command(
    epilog=examples(
        "ruslo topic create orders",
        "ruslo topic create orders payments --partitions 6 --replication-factor 3",
        "ruslo topic create users -c cleanup.policy=compact -c segment.ms=3600000",
    )
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@bootstrap_option
@click.option(
    "-p", "--partitions", type=click.IntRange(1), help="How many; the broker's num.partitions if not given."
)
@click.option("-r", "--replication-factor", type=click.IntRange(1), help="Copies of each partition.")
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs_callback,
    help="A setting of the topic. May be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is no error.")
@click.option("--validate-only", is_flag=True, help="Check, but create nothing.")
@output_option
def create(
    names: tuple[str, ...],
    bootstrap: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    validate_only: bool,
    output: str,
) -> None:
    """Create one or more topics with the same shape."""
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.client.admin.topics import NewTopic
    from ruslo.model.errors import ErrorCode, KafkaError

    wanted = [
        NewTopic(name, partitions or -1, replication_factor or -1, configs) for name in dict.fromkeys(names)
    ]
    results = with_admin(bootstrap, lambda admin: admin.topics.create(wanted, validate_only=validate_only))
    present = {
        name
        for name, result in results.items()
        if if_not_exists and isinstance(result, KafkaError) and result.code == ErrorCode.TOPIC_ALREADY_EXISTS
    }
    verb = "valid" if validate_only else "created"
    rows = [_created_row(name, results[name], "exists" if name in present else verb) for name in results]
    if output == "json":
        print_json(rows)
    else:
        for row in rows:
            if row["error"] is None:
                click.echo(f"{row['status']} {row['name']}{_shape(row)}")
    failed = {name: r for name, r in results.items() if isinstance(r, KafkaError) and name not in present}
    fail_for(failed)
    if not validate_only:
        hint(f"Write to it: echo hello | ruslo produce {names[0]}")


def _shape(row: dict[str, object]) -> str:
    if row["status"] == "exists":
        return ""
    partitions = "1 partition" if row["partitions"] == 1 else f"{row['partitions']} partitions"
    return f"  {partitions}, replication factor {row['replication_factor']}"


def _created_row(name: str, result: CreatedTopic | KafkaError, status: str) -> dict[str, object]:
    from ruslo.client.admin.topics import CreatedTopic
    from ruslo.model.ids import uuid_to_text

    if isinstance(result, CreatedTopic):
        return {
            "name": name,
            "status": status,
            "topic_id": uuid_to_text(result.topic_id),
            "partitions": result.partitions,
            "replication_factor": result.replication_factor,
            "error": None,
        }
    error = None if status == "exists" else result.code.name
    return {"name": name, "status": "exists" if error is None else "failed", "error": error}


@topic.command("list", epilog=examples("ruslo topic list", "ruslo topic list -o json | jq -r .[].name"))
@bootstrap_option
@click.option("--internal", is_flag=True, help="Also those that the cluster keeps for itself.")
@output_option
def list_topics(bootstrap: str, internal: bool, output: str) -> None:
    """List the topics."""
    from ruslo.model.ids import uuid_to_text

    topics = [
        t for t in with_admin(bootstrap, lambda admin: admin.topics.list()) if internal or not t.internal
    ]
    if output == "json":
        print_json(
            [
                {
                    "name": t.name,
                    "topic_id": uuid_to_text(t.topic_id),
                    "internal": t.internal,
                    "partitions": len(t.partitions),
                    "replication_factor": max((len(p.replicas) for p in t.partitions), default=0),
                }
                for t in topics
            ]
        )
        return
    if not topics:
        hint("There are no topics. Create one: ruslo topic create orders")
        return
    print_table(
        ["NAME", "PARTITIONS", "REPLICAS"],
        [
            (t.name, len(t.partitions), max((len(p.replicas) for p in t.partitions), default=0))
            for t in topics
        ],
    )


@topic.command(epilog=examples("ruslo topic describe orders", "ruslo topic describe orders payments -o json"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@bootstrap_option
@click.option("--all-configs", is_flag=True, help="Also settings that have their default.")
@output_option
def describe(names: tuple[str, ...], bootstrap: str, all_configs: bool, output: str) -> None:
    """Show partitions, leaders, offsets, sizes and settings."""
    from ruslo.client.views.topic_view import describe_topic

    async def views(admin: Admin) -> list[TopicView]:
        return [await describe_topic(admin, name) for name in names]

    found = with_admin(bootstrap, views)
    if output == "json":
        print_json([view.as_json(all_configs) for view in found])
        return
    for number, view in enumerate(found):
        if number:
            click.echo()
        print_fields(
            [
                ("Topic", view.name),
                ("Id", view.topic_id),
                ("Partitions", len(view.partitions)),
                ("Records", view.record_count),
                ("Size", "-" if view.size_bytes is None else human_bytes(view.size_bytes)),
                *(
                    (f"  {c.name}", f"{c.value}  ({c.source.name.lower()})")
                    for c in view.shown_configs(all_configs)
                ),
            ]
        )
        click.echo()
        print_table(
            ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "FIRST", "NEXT", "SIZE"],
            [
                (
                    p.partition,
                    p.leader,
                    p.epoch,
                    p.replicas,
                    p.isr,
                    p.first_offset,
                    p.next_offset,
                    p.size_bytes,
                )
                for p in view.partitions
            ],
        )


@topic.command(
    epilog=examples(
        "ruslo topic alter orders --set retention.ms=86400000",
        "ruslo topic alter orders --unset retention.ms",
    )
)
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs_callback,
    help="Give it this value.",
)
@click.option("--unset", "removed", multiple=True, metavar="KEY", help="Back to the default.")
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@output_option
def alter(
    name: str,
    bootstrap: str,
    settings: dict[str, str],
    removed: tuple[str, ...],
    validate_only: bool,
    output: str,
) -> None:
    """Change settings of a topic; 'ruslo config' does the same for any resource."""
    from ruslo.cli.config.config import apply_changes
    from ruslo.client.admin.configs import Resource

    if not settings and not removed:
        raise click.UsageError("Nothing to change: give --set KEY=VALUE or --unset KEY.")
    apply_changes(bootstrap, Resource.topic(name), settings, removed, validate_only, output)


@topic.command(epilog=examples("ruslo topic delete orders", "ruslo topic delete orders payments --yes"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@yes_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, if_exists: bool, yes: bool, output: str) -> None:
    """Delete topics with all their records."""
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.model.errors import ErrorCode

    confirm(f"Delete {', '.join(names)} with all records?", yes)
    results = with_admin(bootstrap, lambda admin: admin.topics.delete(dict.fromkeys(names)))
    absent = {
        name
        for name, error in results.items()
        if if_exists and error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    status = {
        name: "absent" if name in absent else "deleted" if error is None else "failed"
        for name, error in results.items()
    }
    if output == "json":
        print_json(
            [
                {
                    "name": name,
                    "status": status[name],
                    "error": error.code.name if error and name not in absent else None,
                }
                for name, error in results.items()
            ]
        )
    else:
        for name, word in status.items():
            if word != "failed":
                click.echo(f"{word} {name}")
    fail_for({name: error for name, error in results.items() if error is not None and name not in absent})


@topic.command("add-partitions", epilog=examples("ruslo topic add-partitions orders --total 12"))
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@click.option("--total", type=click.IntRange(1), required=True, help="How many there shall be afterwards.")
@click.option("--validate-only", is_flag=True, help="Check, but add nothing.")
@output_option
def add_partitions(name: str, bootstrap: str, total: int, validate_only: bool, output: str) -> None:
    """Give a topic more partitions. Keys may map to other partitions from then on."""
    with_admin(bootstrap, lambda admin: admin.topics.add_partitions(name, total, validate_only=validate_only))
    if output == "json":
        print_json({"name": name, "partitions": total, "validate_only": validate_only})
    else:
        click.echo(f"{name} {'could have' if validate_only else 'has'} {total} partitions")


@topic.command(
    "delete-records",
    epilog=examples(
        "ruslo topic delete-records orders --before end",
        "ruslo topic delete-records orders --before 7d --yes",
        "ruslo topic delete-records orders -p 0 --before 1000",
    ),
)
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one. May be repeated.",
)
@click.option(
    "--before",
    required=True,
    callback=position_callback,
    metavar="WHERE",
    help="end, an offset (1000), records before the end (-100), a time ago (7d), a date and time or @ms.",
)
@yes_option
@output_option
def delete_records(
    name: str, bootstrap: str, numbers: tuple[int, ...], before: Position, yes: bool, output: str
) -> None:
    """Delete the oldest records of a topic, up to a place or time."""
    confirm(f"Delete the oldest records of {name}?", yes)

    async def run(admin: Admin) -> dict[TopicPartition, int]:
        from ruslo.model.topics import TopicPartition

        info = await admin.topics.describe(name)
        partitions = [TopicPartition(name, p) for p in numbers or [p.partition for p in info.partitions]]
        return await admin.topics.delete_records(await _offsets(admin, partitions, before))

    starts = with_admin(bootstrap, run)
    if output == "json":
        print_json(
            [{"topic": p.topic, "partition": p.partition, "first_offset": s} for p, s in starts.items()]
        )
    else:
        print_table(["PARTITION", "FIRST"], [(p.partition, start) for p, start in starts.items()])


async def _offsets(
    admin: Admin, partitions: list[TopicPartition], where: Position
) -> dict[TopicPartition, int]:
    from ruslo.client.admin.topics import HIGH_WATERMARK

    match where:
        case AtOffset(offset):
            return dict.fromkeys(partitions, offset)
        case BeforeEnd(0):
            return dict.fromkeys(partitions, HIGH_WATERMARK)
        case AtTime(timestamp_ms):
            found = await admin.offsets.find(dict.fromkeys(partitions, timestamp_ms))
            return {p: listed.offset if listed.offset >= 0 else HIGH_WATERMARK for p, listed in found.items()}
        case AtStart() | BeforeEnd(_):
            ranges = await admin.offsets.ranges(partitions)
            keep = where.records if isinstance(where, BeforeEnd) else None
            return {
                p: first if keep is None else max(first, end - keep) for p, (first, end) in ranges.items()
            }
