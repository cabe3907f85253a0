"""``ruslo quota``: client quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ruslo.cli.arguments.options import (
    bootstrap_option,
    confirm,
    examples,
    output_option,
    pairs_callback,
    yes_option,
)
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json, print_table
from ruslo.client.views.quota_text import ENTITY_TYPES, check_key, entity_text, parse_limit

if TYPE_CHECKING:
    from ruslo.client.admin.quotas import ClientQuota

Entity = dict[str, str | None]


def entity_options(function: Callable[..., None]) -> Callable[..., None]:
    """--user, --client-id, --ip and their defaults, which become ``entity``."""

    @wraps(function)
    def with_entity(**options: Any) -> None:
        entity: Entity = {}
        for kind in ENTITY_TYPES:
            name = options.pop(kind.replace("-", "_"))
            default = options.pop(f"default_{kind.replace('-', '_')}")
            if name is not None and default:
                raise click.UsageError(f"--{kind} and --default-{kind} exclude each other. Choose one.")
            if name is not None or default:
                entity[kind] = name
        if "ip" in entity and len(entity) > 1:
            raise click.UsageError("--ip excludes --user and --client-id. Choose one.")
        function(entity=entity, **options)

    decorated: Callable[..., None] = with_entity
    for kind in reversed(ENTITY_TYPES):
        decorated = click.option(
            f"--default-{kind}", is_flag=True, help=f"Each {kind} without a quota of its own."
        )(decorated)
        decorated = click.option(f"--{kind}", metavar="NAME", help=f"One {kind}.")(decorated)
    return decorated


@click.group(
    short_help="Show and change client quotas.",
    epilog=examples("ruslo quota set --user alice producer_byte_rate=1048576", "ruslo quota list"),
)
def quota() -> None:
    """Show and change client quotas: of users, client IDs, both, IP addresses, and their defaults."""


@quota.command("list", epilog=examples("ruslo quota list", "ruslo quota list --user alice -o json"))
@entity_options
@bootstrap_option
@output_option
def list_quotas(entity: Entity, bootstrap: str, output: str) -> None:
    """List all quotas, or those in which these names occur."""
    _print(with_admin(bootstrap, lambda admin: admin.quotas.list(entity)), output)


@quota.command(
    epilog=examples("ruslo quota describe --user alice", "ruslo quota describe --default-client-id")
)
@entity_options
@bootstrap_option
@output_option
def describe(entity: Entity, bootstrap: str, output: str) -> None:
    """Show the quotas of exactly this entity. Exit code 1: it has none."""
    _require(entity)
    found = with_admin(bootstrap, lambda admin: admin.quotas.list(entity, strict=True))
    if not found:
        raise click.ClickException(f"{entity_text(entity)} has no quota. Run 'ruslo quota list' to see all.")
    _print(found, output)


@quota.command(
    "set",
    epilog=examples(
        "ruslo quota set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
        "ruslo quota set --default-user request_percentage=50",
        "ruslo quota set --ip 10.0.0.7 connection_creation_rate=20",
    ),
)
@entity_options
@click.argument("values", nargs=-1, required=True, metavar="KEY=NUMBER...", callback=pairs_callback)
@bootstrap_option
@output_option
def set_quota(entity: Entity, values: dict[str, str], bootstrap: str, output: str) -> None:
    """Set quotas; byte rates are per second and broker."""
    _require(entity)
    _check_keys(entity, values)
    numbers = _numbers(values)
    with_admin(bootstrap, lambda admin: admin.quotas.alter(entity, numbers))
    if output == "json":
        print_json({"entity": entity, "values": numbers})
    else:
        for key in numbers:
            click.echo(f"set {key} of {entity_text(entity)} to {values[key]}")


@quota.command(epilog=examples("ruslo quota delete --user alice producer_byte_rate --yes"))
@entity_options
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@bootstrap_option
@yes_option
@output_option
def delete(entity: Entity, keys: tuple[str, ...], bootstrap: str, yes: bool, output: str) -> None:
    """Delete quotas of an entity, by default all."""
    _require(entity)
    _check_keys(entity, keys)
    found = with_admin(bootstrap, lambda admin: admin.quotas.list(entity, strict=True))
    present = [key for each in found for key in each.values if not keys or key in keys]
    if not present:
        raise click.ClickException(
            f"{entity_text(entity)} has no such quota. Run 'ruslo quota list' to see all."
        )
    confirm(f"Delete {', '.join(present)} of {entity_text(entity)}?", yes)
    with_admin(bootstrap, lambda admin: admin.quotas.alter(entity, dict.fromkeys(present)))
    if output == "json":
        print_json({"entity": entity, "deleted": present})
    else:
        click.echo(f"deleted {', '.join(present)} of {entity_text(entity)}")


def _require(entity: Entity) -> None:
    if not entity:
        raise click.UsageError(
            "Choose an entity: --user NAME, --client-id NAME, both, --ip ADDRESS, or a --default-… option."
        )


def _check_keys(entity: Entity, keys: Iterable[str]) -> None:
    try:
        for key in keys:
            check_key(entity, key)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None


def _numbers(values: dict[str, str]) -> dict[str, float | None]:
    try:
        return {key: parse_limit(key, text) for key, text in values.items()}
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None


def _print(quotas: list[ClientQuota], output: str) -> None:
    if output == "json":
        print_json([each._asdict() for each in quotas])
    elif quotas:
        rows = [
            (entity_text(each.entity), key, value) for each in quotas for key, value in each.values.items()
        ]
        print_table(["ENTITY", "QUOTA", "VALUE"], rows)
    else:
        click.echo("No quotas found.")
