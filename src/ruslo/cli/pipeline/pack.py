"""``ruslo pipeline pack``: pack the Python environment of executors."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.terminal.output import hint, human_bytes, print_json


@click.command(
    short_help="Pack the Python environment for a Spark cluster.",
    epilog=examples(
        "ruslo pipeline pack orders-env.tar.gz",
        "ruslo pipeline pack orders-env.tar.gz --package scikit-learn",
        "ruslo pipeline run orders.yaml --master spark://10.0.0.5:7077 --env orders-env.tar.gz",
    ),
)
@click.argument("path", metavar="ARCHIVE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="NAME",
    help="An installed package that the pipeline imports. Repeatable.",
)
@output_option
def pack(path: Path, packages: tuple[str, ...], output: str) -> None:
    """Pack Ruslo, its dependencies and more packages into a .tar.gz that Spark sends to its executors.

    Executors need the same minor version of Python and the same platform as this machine. Modules next to a
    pipeline file are sent with the query and need not be packed.
    """
    from ruslo.pipeline.pack.archive import write_archive

    if not path.name.endswith(".tar.gz"):
        raise click.UsageError(
            f"{path} does not end with .tar.gz, which Spark requires. Choose another name."
        )
    packed = write_archive(path, packages)
    if output == "json":
        print_json({"path": str(packed.path), "size_bytes": packed.size_bytes, "packages": packed.packages})
    else:
        click.echo(f"wrote {path}: {len(packed.packages)} packages, {human_bytes(packed.size_bytes)}")
    hint(f"Use it: ruslo pipeline run FILE --master spark://HOST:7077 --env {path}")
