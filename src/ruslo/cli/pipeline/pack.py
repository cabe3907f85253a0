"""``ruslo pipeline pack``: the environment for executors in one archive."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.terminal.output import hint, human_bytes, print_json


@click.command(
    short_help="Pack the environment for a Spark cluster.",
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
    help="An installed package that the pipeline's functions import. May be repeated.",
)
@output_option
def pack(path: Path, packages: tuple[str, ...], output: str) -> None:
    """Put Ruslo, the packages it needs and those named into a .tar.gz that Spark sends to its executors.

    Executors need the same minor version of Python and the same kind of machine as this one, no more.
    Modules beside a pipeline file need not be packed: their functions travel with the query.
    """
    from ruslo.pipeline.pack.archive import write_archive

    if not path.name.endswith(".tar.gz"):
        raise click.UsageError(f"{path} should end with .tar.gz: Spark goes by the name.")
    packed = write_archive(path, packages)
    if output == "json":
        print_json({"path": str(packed.path), "size_bytes": packed.size_bytes, "packages": packed.packages})
    else:
        click.echo(f"wrote {path}: {len(packed.packages)} packages, {human_bytes(packed.size_bytes)}")
    hint(f"Use it: ruslo pipeline run FILE --master spark://HOST:7077 --env {path}")
