"""``ruslo acl``: list, create and delete ACLs, and explain what they decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ruslo.cli.acl.explain import explain
from ruslo.cli.acl.suggest import suggest
from ruslo.cli.arguments.options import (
    F,
    bootstrap_option,
    confirm,
    examples,
    output_option,
    parsed,
    yes_option,
)
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table
from ruslo.client.views.acl_text import (
    acl_json,
    new_rules,
    parse_operation,
    parse_pattern,
    resource_text,
    shown,
)

if TYPE_CHECKING:
    from ruslo.model.acls import Acl, AclFilter, Operation


@click.group(
    short_help="List, create and delete ACLs, and explain what they decide.",
    epilog=examples(
        "ruslo acl allow User:alice read,write topic:orders",
        "ruslo acl explain User:alice read topic:orders",
    ),
)
def acl() -> None:
    """List, create and delete ACLs, and explain what they decide."""


def filter_options(function: F) -> F:
    for decorator in (
        click.option("--host", metavar="ADDRESS", help="ACLs of this host."),
        click.option("--operation", callback=parsed(parse_operation), help="ACLs of this operation."),
        click.option("--principal", metavar="TYPE:NAME", help="ACLs of this principal."),
        click.option("--resource", metavar="TYPE:NAME", help="ACLs of exactly this resource pattern."),
    ):
        function = decorator(function)
    return function


@acl.command("list", epilog=examples("ruslo acl list", "ruslo acl list --principal User:alice -o json"))
@filter_options
@bootstrap_option
@output_option
def list_acls(
    resource: str | None,
    principal: str | None,
    operation: Operation | None,
    host: str | None,
    bootstrap: str,
    output: str,
) -> None:
    """List ACLs."""
    wanted = _filter(resource, principal, operation, host)
    found = with_admin(bootstrap, lambda admin: admin.acls.list(wanted))
    if output == "json":
        print_json([acl_json(each) for each in found])
    elif found:
        _print(found)
    else:
        click.echo("No ACLs found.")
        hint("Create one: ruslo acl allow User:NAME read topic:NAME")


def _rule_command(verb: str) -> click.Command:
    @click.command(
        verb,
        help=f"{verb.capitalize()} a principal operations on a resource.\n\nOPERATIONS are separated by "
        "commas. A RESOURCE is topic:NAME, group:NAME, cluster, transactional-id:NAME, delegation-token:ID "
        "or user:PRINCIPAL; a name that ends with * is a prefix, * alone is every name.",
        epilog=examples(
            f"ruslo acl {verb} User:alice read,write topic:orders",
            f"ruslo acl {verb} User:bob read 'group:billing-*' --host 10.0.0.7",
        ),
    )
    @click.argument("principal")
    @click.argument("operations")
    @click.argument("resource")
    @bootstrap_option
    @click.option("--host", default="*", show_default=True, metavar="ADDRESS", help="Only from this host.")
    @click.option("--literal", is_flag=True, help="A * at the end of the name is a part of it.")
    @output_option
    def command(
        principal: str, operations: str, resource: str, bootstrap: str, host: str, literal: bool, output: str
    ) -> None:
        from ruslo.model.acls import Permission

        permission = Permission.ALLOW if verb == "allow" else Permission.DENY
        try:
            pattern = parse_pattern(resource, literal=literal)
            rules = new_rules(permission, principal, operations.split(","), pattern, host)
        except ValueError as error:
            raise click.UsageError(f"{error}.") from None
        with_admin(bootstrap, lambda admin: admin.acls.create(rules))
        if output == "json":
            print_json([acl_json(each) for each in rules])
        else:
            for rule in rules:
                click.echo(f"created {rule}")

    return command


@acl.command(
    epilog=examples(
        "ruslo acl delete --principal User:alice", "ruslo acl delete --resource topic:orders --yes"
    )
)
@filter_options
@bootstrap_option
@yes_option
@output_option
def delete(
    resource: str | None,
    principal: str | None,
    operation: Operation | None,
    host: str | None,
    bootstrap: str,
    yes: bool,
    output: str,
) -> None:
    """Delete the ACLs that match all options; the command shows them first."""
    if (resource, principal, operation, host) == (None, None, None, None):
        raise click.UsageError("Choose ACLs with --resource, --principal, --operation or --host.")
    wanted = _filter(resource, principal, operation, host)
    found = with_admin(bootstrap, lambda admin: admin.acls.list(wanted))
    if not found:
        raise click.ClickException("No ACL matches. Run 'ruslo acl list' to see all.")
    if not yes:
        for each in found:
            click.echo(str(each), err=True)
    confirm(f"Delete {len(found)} ACLs?", yes)
    deleted = with_admin(bootstrap, lambda admin: admin.acls.delete([wanted]))
    if output == "json":
        print_json([acl_json(each) for each in deleted])
    else:
        for each in deleted:
            click.echo(f"deleted {each}")


def _filter(
    resource: str | None, principal: str | None, operation: Operation | None, host: str | None
) -> AclFilter:
    from ruslo.model.acls import AclFilter, Operation

    wanted = AclFilter(principal=principal, host=host, operation=operation or Operation.ANY)
    if resource is None:
        return wanted
    try:
        pattern = parse_pattern(resource)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    return wanted._replace(
        resource_type=pattern.type, resource_name=pattern.name, pattern_type=pattern.pattern_type
    )


def _print(acls: Sequence[Acl]) -> None:
    from ruslo.model.acls import Operation, Permission

    rows = [
        (
            each.principal,
            Permission(each.permission).name.lower(),
            shown(Operation(each.operation)),
            resource_text(each.resource_type, each.resource_name, each.pattern_type),
            each.host,
        )
        for each in acls
    ]
    print_table(["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "HOST"], rows)


for each_command in (_rule_command("allow"), _rule_command("deny"), explain, suggest):
    acl.add_command(each_command)
