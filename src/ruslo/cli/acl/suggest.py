"""``ruslo acl suggest``: the least ACLs that would have allowed what the audit log shows as denied."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import IO, NamedTuple

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.terminal.output import print_json
from ruslo.client.views.acl_text import resource_text, shown

_INCLUDED = {
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}
"""Operations that other operations on the same resource include."""


class Need(NamedTuple):
    """What a principal tried to do."""

    principal: str
    resource_type: str
    name: str
    operation: str


@click.command(
    epilog=examples(
        "ruslo acl suggest /var/log/ruslo/audit.log",
        "ruslo acl suggest audit.log --principal User:alice -o json",
    )
)
@click.argument("log", type=click.File(encoding="utf-8"))
@click.option("--principal", metavar="TYPE:NAME", help="Only for this principal.")
@click.option("--with-allowed", is_flag=True, help="Include operations that were allowed.")
@output_option
def suggest(log: IO[str], principal: str | None, with_allowed: bool, output: str) -> None:
    """Read the audit log LOG (JSON lines; - is stdin) and print commands that create the least ACLs.

    Nothing is changed. Check each command: a denial may be right.
    """
    wanted, forbidden = needs(log, principal, with_allowed=with_allowed)
    commands = [allow_command(each) for each in least(wanted)]
    if output == "json":
        print_json({"commands": commands, "denied_by_acl": forbidden})
        return
    for command in commands:
        click.echo(command)
    for text in forbidden:
        click.echo(f"# An ACL of the type DENY decided, so ALLOW does not help: {text}")
    if not commands and not forbidden:
        click.echo("The audit log has no denied operation.")


def needs(
    lines: Iterable[str], principal: str | None, *, with_allowed: bool = False
) -> tuple[set[Need], list[str]]:
    """What principals tried, and what an ACL of the type DENY forbade."""
    wanted: set[Need] = set()
    forbidden: dict[str, None] = {}
    events = ("denied", "allowed") if with_allowed else ("denied",)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            if event["event"] not in events or principal not in (None, event["principal"]):
                continue
            need = Need(event["principal"], event["resource"], event["name"], event["operation"])
            rule = str(event["rule"])
        except (ValueError, KeyError, TypeError):
            raise click.ClickException(
                f"Line {number} is not a line of an audit log. Use the file of ruslo.audit.log"
            ) from None
        if rule.startswith("DENY "):
            forbidden[
                f"{need.operation} on {need.resource_type} {need.name} for {need.principal}: {rule}"
            ] = None
        else:
            wanted.add(need)
    return wanted, list(forbidden)


def least(wanted: set[Need]) -> list[Need]:
    """Without operations that another one on the same resource includes."""
    return sorted(
        need
        for need in wanted
        if not any(need._replace(operation=wider) in wanted for wider in _INCLUDED.get(need.operation, ()))
    )


def allow_command(need: Need) -> str:
    from ruslo.model.acls import Operation, PatternType, ResourceType

    resource = resource_text(ResourceType[need.resource_type], need.name, PatternType.LITERAL)
    words = ["ruslo", "acl", "allow", need.principal, shown(Operation[need.operation]), resource]
    return shlex.join(words) + (" --literal" if need.name.endswith("*") and need.name != "*" else "")
