"""``ruslo topic create``: new topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, pairs_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json

if TYPE_CHECKING:
    from ruslo.client.admin.topics import CreatedTopic
    from ruslo.model.errors import KafkaError


@click.command(
    epilog=examples(
        "ruslo topic create orders",
        "ruslo topic create orders payments --partitions 6 --replication-factor 3",
        "ruslo topic create users -c cleanup.policy=compact -c segment.ms=3600000",
    )
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@bootstrap_option
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    help="Number of partitions (default: num.partitions of the broker).",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    help="Replicas of each partition (default: default.replication.factor of the broker).",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs_callback,
    help="A topic config. Repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic already exists.")
@click.option("--validate-only", is_flag=True, help="Validate the request without creating topics.")
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
    """Create one or more topics with the same partitions, replicas and configs."""
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
        hint(f"Produce a record: echo hello | ruslo produce {names[0]}")


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
