"""``ruslo config``: configs of a topic, a group, a broker, or all brokers, and log levels of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, pairs_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.config_changes import config_changes, print_config_changes
from ruslo.cli.terminal.output import print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.configs import Change, ConfigEntry, Resource


def resource_options(function: Callable[..., None]) -> Callable[..., None]:
    """--topic, --group, --broker, --broker-logger and --all-brokers: the given one becomes ``resource``."""

    @wraps(function)
    def with_resource(
        *,
        topic: str | None,
        group: str | None,
        broker: int | None,
        broker_logger: int | None,
        all_brokers: bool,
        **options: Any,
    ) -> None:
        function(resource=_resource(topic, group, broker, broker_logger, all_brokers), **options)

    decorated: Callable[..., None] = with_resource
    for decorator in (
        click.option("--all-brokers", is_flag=True, help="The dynamic default of all brokers."),
        click.option(
            "--broker-logger",
            type=click.IntRange(0),
            metavar="ID",
            help="The loggers of one broker: KEY is a logger, VALUE its level, until the broker restarts.",
        ),
        click.option("--broker", type=click.IntRange(0), metavar="ID", help="One broker."),
        click.option("--group", metavar="ID", help="A group."),
        click.option("--topic", metavar="NAME", help="A topic."),
    ):
        decorated = decorator(decorated)
    return decorated


def _resource(
    topic: str | None, group: str | None, broker: int | None, broker_logger: int | None, all_brokers: bool
) -> Resource:
    from ruslo.client.admin.configs import Resource

    chosen = [
        *([] if topic is None else [Resource.topic(topic)]),
        *([] if group is None else [Resource.group(group)]),
        *([] if broker is None else [Resource.broker(broker)]),
        *([] if broker_logger is None else [Resource.broker_loggers(broker_logger)]),
        *([Resource.all_brokers()] if all_brokers else []),
    ]
    if len(chosen) != 1:
        raise click.UsageError(
            "Choose one resource: --topic NAME, --group ID, --broker ID, --broker-logger ID or --all-brokers."
        )
    return chosen[0]


@click.group(
    short_help="Show and change configs of topics, groups and brokers.",
    epilog=examples(
        "ruslo config describe --topic orders", "ruslo config set --topic orders retention.ms=86400000"
    ),
)
def config() -> None:
    """Show and change configs of topics, groups and brokers."""


@config.command(
    epilog=examples(
        "ruslo config describe --topic orders",
        "ruslo config describe --broker 1 --set-only",
        "ruslo config describe --broker-logger 1",
        "ruslo config describe --topic orders retention.ms cleanup.policy --doc",
    )
)
@resource_options
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@bootstrap_option
@click.option("--set-only", is_flag=True, help="Hide configs with their default value.")
@click.option("--doc", is_flag=True, help="Show what each config does.")
@output_option
def describe(
    resource: Resource, keys: tuple[str, ...], bootstrap: str, set_only: bool, doc: bool, output: str
) -> None:
    """Show configs with their values and sources."""
    from ruslo.client.admin.configs import ResourceType

    found = with_admin(
        bootstrap, lambda admin: admin.configs.describe(resource, keys or None, documentation=doc)
    )
    entries = [entry for entry in found if entry.is_set or not set_only]
    missing = sorted(set(keys) - {entry.name for entry in found})
    if output == "json":
        print_json([_as_json(entry, doc) for entry in entries])
    elif doc:
        for entry in entries:
            click.echo(f"{entry.name} = {_shown(entry)}  ({_source(entry)})")
            click.echo(click.wrap_text(entry.documentation or "", 100, "    ", "    "))
    elif entries:
        print_table(
            ["KEY", "VALUE", "SOURCE"], [(entry.name, _shown(entry), _source(entry)) for entry in entries]
        )
    _report_without_effect(resource, [entry.name for entry in entries if entry.is_set or keys])
    if missing:
        noun = "logger" if resource.type == ResourceType.BROKER_LOGGER else "config"
        raise click.ClickException(
            f"Unknown {noun} {missing[0]!r}. Run 'ruslo config describe' without names to list all"
        )


def _shown(entry: ConfigEntry) -> str:
    if entry.sensitive:
        return "(hidden)"
    return "-" if entry.value is None else entry.value or '""'


def _source(entry: ConfigEntry) -> str:
    return entry.source.name.lower().replace("_", "-") + (", read-only" if entry.read_only else "")


def _as_json(entry: ConfigEntry, doc: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower(),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
    }
    return fields | {"documentation": entry.documentation} if doc else fields


@config.command(
    "set",
    epilog=examples(
        "ruslo config set --topic orders retention.ms=86400000 cleanup.policy=compact",
        "ruslo config set --group billing consumer.session.timeout.ms=50000",
        "ruslo config set --all-brokers log.retention.ms=604800000",
        "ruslo config set --broker-logger 1 ruslo.broker.controller=DEBUG",
    ),
)
@resource_options
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...", callback=pairs_callback)
@bootstrap_option
@click.option("--validate-only", is_flag=True, help="Validate the change without applying it.")
@output_option
def set_config(
    resource: Resource, settings: dict[str, str], bootstrap: str, validate_only: bool, output: str
) -> None:
    """Set configs."""
    _alter(bootstrap, resource, config_changes(settings, ()), validate_only, output)
    _report_without_effect(resource, settings)


@config.command(
    epilog=examples(
        "ruslo config unset --topic orders retention.ms", "ruslo config unset --broker 1 log.cleaner.threads"
    )
)
@resource_options
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@bootstrap_option
@click.option("--validate-only", is_flag=True, help="Validate the change without applying it.")
@output_option
def unset(
    resource: Resource, keys: tuple[str, ...], bootstrap: str, validate_only: bool, output: str
) -> None:
    """Reset configs to their defaults."""
    _alter(bootstrap, resource, config_changes({}, keys), validate_only, output)


def _alter(
    bootstrap: str, resource: Resource, changes: dict[str, Change], validate_only: bool, output: str
) -> None:
    with_admin(bootstrap, lambda admin: admin.configs.alter(resource, changes, validate_only=validate_only))
    print_config_changes(resource, changes, validate_only, output)


def _report_without_effect(resource: Resource, names: Iterable[str]) -> None:
    """Say on stderr which configs exist for Apache Kafka only."""
    from ruslo.client.admin.configs import ResourceType
    from ruslo.config.keys.broker import BROKER
    from ruslo.config.log_config import TOPIC

    tables = {ResourceType.BROKER: BROKER, ResourceType.TOPIC: TOPIC}
    table = tables.get(resource.type)
    for name in names:
        if table is not None and name in table and not table[name].has_effect:
            click.echo(f"{name} has no effect on a Ruslo broker: see docs/configuration.md.", err=True)
