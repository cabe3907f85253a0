"""``ruslo topic``: create, list, describe, alter and delete topics."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.topic.add_partitions import add_partitions
from ruslo.cli.topic.alter import alter
from ruslo.cli.topic.create import create
from ruslo.cli.topic.delete import delete
from ruslo.cli.topic.delete_records import delete_records
from ruslo.cli.topic.describe import describe
from ruslo.cli.topic.list import list_topics


@click.group(
    short_help="Create, list, describe, alter and delete topics.",
    epilog=examples("ruslo topic create orders --partitions 3", "ruslo topic list"),
)
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


for command in (create, list_topics, describe, alter, delete, add_partitions, delete_records):
    topic.add_command(command)
