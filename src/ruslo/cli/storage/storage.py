"""``ruslo storage``: format and inspect the log directories of a node."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.arguments.property_file import load_config, property_file_options
from ruslo.cli.terminal.output import hint, print_json, print_table


@click.group(
    short_help="Format and inspect a node's log directories.",
    epilog=examples("ruslo storage format -c server.properties --standalone"),
)
def storage() -> None:
    """Format and inspect a node's log directories, like Kafka's storage tool."""


@storage.command(
    "format",
    epilog=examples(
        "ruslo storage format -c server.properties --standalone",
        'ruslo storage format -c server.properties -t "$(ruslo storage random-uuid)"',
        "ruslo storage format -c server.properties -t ID --no-initial-controllers",
        "ruslo storage format -c server.properties --standalone --add-scram @admin.scram",
        "ruslo storage format -c server.properties -t ID -I 1@a:9093:DIR1,2@b:9093:DIR2,3@c:9093:DIR3",
    ),
)
@property_file_options
@click.option(
    "-t", "--cluster-id", metavar="ID", help="Cluster ID (default for a new cluster: a random one)."
)
@click.option("-s", "--standalone", is_flag=True, help="Make this node the only controller of a new cluster.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,…",
    help="Initial controllers of a new cluster.",
)
@click.option(
    "-N", "--no-initial-controllers", is_flag=True, help="Join the controllers of an existing cluster."
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are already formatted.")
@click.option(
    "-r", "--release-version", metavar="VERSION", help="Feature levels of this release, such as 4.2."
)
@click.option(
    "-f",
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Level of one feature. Repeatable.",
)
@click.option(
    "-S",
    "--add-scram",
    "users",
    multiple=True,
    metavar="MECHANISM=[name=…,password=…]",
    help="SCRAM user of a new cluster. @FILE reads it from a file, - from stdin: passwords in arguments are "
    "visible to other users of this machine. Repeatable.",
)
@output_option
def format_command(
    path: Path,
    settings: dict[str, str],
    cluster_id: str | None,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    ignore_formatted: bool,
    release_version: str | None,
    features: tuple[str, ...],
    users: tuple[str, ...],
    output: str,
) -> None:
    """Format the log directories of a new node. Directories with data are never changed."""
    from ruslo.broker.node.bootstrap_users import parse_scram_user
    from ruslo.broker.node.format import QuorumOptions, format_storage
    from ruslo.cli.arguments.secrets import secret_lines
    from ruslo.machines.controller.feature_levels import parse_feature

    result = format_storage(
        load_config(path, settings),
        cluster_id=cluster_id,
        quorum=QuorumOptions(standalone, initial_controllers, no_initial_controllers),
        release_version=release_version,
        features=[parse_feature(text) for text in features],
        users=[parse_scram_user(each) for text in users for each in secret_lines(text)],
        ignore_formatted=ignore_formatted,
    )
    if output == "json":
        print_json(
            {
                "cluster_id": result.cluster_id,
                "features": result.features,
                "formatted": list(result.formatted),
                "already_formatted": list(result.already_formatted),
            }
        )
        return
    for directory in result.formatted:
        click.echo(f"formatted {directory} for cluster {result.cluster_id}")
    for directory in result.already_formatted:
        click.echo(f"skipped {directory}: already formatted")
    hint(f"Start the node: ruslo serve -c {path}")


@storage.command("random-uuid", epilog=examples("ruslo storage random-uuid"))
@output_option
def random_uuid_command(output: str) -> None:
    """Print a random ID for a cluster or a directory."""
    from ruslo.model.ids import random_uuid, uuid_to_text

    text = uuid_to_text(random_uuid())
    if output == "json":
        print_json({"uuid": text})
    else:
        click.echo(text)


@storage.command(epilog=examples("ruslo storage info -c server.properties"))
@property_file_options
@output_option
def info(path: Path, settings: dict[str, str], output: str) -> None:
    """Show the cluster and node of each log directory. Exit code 1: one is not formatted."""
    from ruslo.broker.node.identity import all_directories
    from ruslo.model.ids import uuid_to_text
    from ruslo.storage.local_disk import LocalDisk
    from ruslo.storage.meta_properties import read_meta_properties

    metas = {
        each: read_meta_properties(LocalDisk(each)) for each in all_directories(load_config(path, settings))
    }
    if output == "json":
        print_json(
            [
                {
                    "directory": directory,
                    "formatted": meta is not None,
                    "cluster_id": meta.cluster_id if meta else None,
                    "node_id": meta.node_id if meta else None,
                    "directory_id": uuid_to_text(meta.directory_id) if meta else None,
                }
                for directory, meta in metas.items()
            ]
        )
    else:
        print_table(
            ["DIRECTORY", "CLUSTER", "NODE", "DIRECTORY ID"],
            [
                (directory, meta.cluster_id, meta.node_id, uuid_to_text(meta.directory_id))
                if meta
                else (directory, "not formatted", None, None)
                for directory, meta in metas.items()
            ],
        )
    missing = [directory for directory, meta in metas.items() if meta is None]
    if missing:
        raise click.ClickException(
            f"{missing[0]} is not formatted. For a new node, run 'ruslo storage format -c {path}'; "
            "otherwise check log.dirs and that the disk is mounted"
        )
