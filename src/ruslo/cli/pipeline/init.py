"""``ruslo pipeline init``: create an example pipeline file."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.terminal.output import hint, print_json

_FILE = """\
# Orders of 100 or more. All keys: docs/pipelines.md
name: {name}
source:
  name: orders
  type: topic
  topic: {topic}
  schema: id BIGINT, customer STRING, item STRING, amount DOUBLE
steps:
{step}
sink:
  type: topic
  topic: {to}
  key: customer
trigger: 1s
checkpoint: checkpoints/{name}
dead_letters: {topic}.dead
group: {name}
examples:
  - name: small orders are filtered out
    given:
      - {{id: 1, customer: ann, item: tea, amount: 120.0}}
      - {{id: 2, customer: bob, item: bread, amount: 3.5}}
    expect:
      - {{id: 1, customer: ann, amount: 120.0}}
"""
_SQL_STEP = """\
  - name: large
    sql: |
      SELECT id, customer, item, amount
      FROM orders
      WHERE amount >= 100"""
_PYTHON_STEP = """\
  - name: large
    python: {module}:large"""
_MODULE = '''\
"""Steps of the pipeline {name}: functions from views to a view."""

from pyspark.sql import DataFrame


def large(orders: DataFrame) -> DataFrame:
    return orders.select("id", "customer", "item", "amount").where("amount >= 100")
'''


@click.command(
    short_help="Create an example pipeline file.",
    epilog=examples(
        "ruslo pipeline init orders.yaml",
        "ruslo pipeline init orders.yaml --topic shop.orders --to shop.large --python",
    ),
)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--topic", default="orders", show_default=True, help="Source topic.")
@click.option("--to", default="large-orders", show_default=True, help="Sink topic.")
@click.option("--python", is_flag=True, help="Write the step in Python instead of SQL, in a separate module.")
@output_option
def init(path: Path, topic: str, to: str, python: bool, output: str) -> None:
    """Create a small pipeline file with an example. It passes lint and test."""
    if path.suffix not in (".yaml", ".yml"):
        raise click.UsageError(f"{path} is not a YAML file. Use a name that ends with .yaml.")
    name = path.stem
    module = path.with_name(f"{name.replace('-', '_').replace('.', '_')}_steps.py")
    step = _PYTHON_STEP.format(module=module.stem) if python else _SQL_STEP
    files = {path: _FILE.format(name=name, topic=topic, to=to, step=step)}
    if python:
        files[module] = _MODULE.format(name=name)
    existing = [str(file) for file in files if file.exists()]
    if existing:
        raise click.ClickException(
            f"{', '.join(existing)} already exists. Choose another name, or remove it."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    if output == "json":
        print_json({"files": [str(file) for file in files]})
    else:
        click.echo(f"wrote {', '.join(str(file) for file in files)}")
    hint(f"Next: ruslo pipeline test {path}")
