"""Config changes of ``topic alter``, ``config set`` and ``config unset``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.client.admin.configs import Change, Resource


def config_changes(settings: Mapping[str, str], removed: Iterable[str]) -> dict[str, Change]:
    from ruslo.client.admin.configs import Change, Operation

    both = sorted(set(settings) & set(removed))
    if both:
        raise click.UsageError(f"{both[0]} is both set and unset. Remove one of the two.")
    changes = {key: Change(Operation.SET, value) for key, value in settings.items()}
    return changes | {key: Change(Operation.DELETE) for key in removed}


def print_config_changes(
    resource: Resource, changes: Mapping[str, Change], validate_only: bool, output: str
) -> None:
    target = (
        f"{resource.type.name.lower().replace('_', '-')} {resource.name}" if resource.name else "all brokers"
    )
    if output == "json":
        print_json(
            {
                "resource": target,
                "validate_only": validate_only,
                "set": {key: change.value for key, change in changes.items() if change.value is not None},
                "unset": [key for key, change in changes.items() if change.value is None],
            }
        )
        return
    verb = "valid" if validate_only else "changed"
    for key, change in changes.items():
        click.echo(f"{verb} {target}: {key} " + ("unset" if change.value is None else f"= {change.value}"))
