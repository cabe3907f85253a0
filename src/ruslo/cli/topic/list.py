"""``ruslo topic list``: the topics of the cluster."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table


@click.command("list", epilog=examples("ruslo topic list", "ruslo topic list -o json | jq -r .[].name"))
@bootstrap_option
@click.option("--internal", is_flag=True, help="Include internal topics.")
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
        hint("No topics found. Create one: ruslo topic create orders")
        return
    print_table(
        ["NAME", "PARTITIONS", "REPLICAS"],
        [
            (t.name, len(t.partitions), max((len(p.replicas) for p in t.partitions), default=0))
            for t in topics
        ],
    )
