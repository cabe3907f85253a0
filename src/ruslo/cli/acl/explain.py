"""``ruslo acl explain``: which ACL decides, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.acl.rule_arguments import acl_json, parse_operation, parse_pattern
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ruslo.cli.acl.rule_arguments import Pattern
    from ruslo.machines.authorizer import Decision
    from ruslo.model.acls import Acl, Operation
    from ruslo.model.principals import Principal

DENIED_EXIT_CODE = 3
NOT_VISIBLE = (
    "Clients do not see super.users, which may do everything, nor allow.everyone.if.no.acl.found: check both "
    "in the brokers' property files."
)


@click.command(
    epilog=examples(
        "ruslo acl explain User:alice read topic:orders",
        "ruslo acl explain User:alice describe topic:orders --host 10.0.0.7 -o json",
    )
)
@click.argument("principal")
@click.argument("operation")
@click.argument("resource")
@bootstrap_option
@click.option(
    "--host", default="*", metavar="ADDRESS", help="Host of the client (default: any, so only ACLs of all)."
)
@output_option
def explain(principal: str, operation: str, resource: str, bootstrap: str, host: str, output: str) -> None:
    """Say whether PRINCIPAL may perform OPERATION on RESOURCE, which ACL decides, and why.

    Exit code 0: allowed. 3: denied. 1: the request failed.
    """
    from ruslo.model.principals import parse_principal

    try:
        client = parse_principal(principal)
        wanted = parse_operation(operation)
        pattern = parse_pattern(resource, literal=True)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    acls = with_admin(bootstrap, lambda admin: admin.acls.list())
    decision, reasons = reasoning(acls, client, host, wanted, pattern)
    if output == "json":
        rule = decision.rule
        print_json(
            {
                "allowed": decision.allowed,
                "rule": None if isinstance(rule, str) else acl_json(rule),
                "reasons": reasons,
            }
        )
    else:
        click.echo("allowed" if decision.allowed else "denied")
        for reason in reasons:
            click.echo(f"  {reason}")
    if not decision.allowed:
        raise click.exceptions.Exit(DENIED_EXIT_CODE)


def reasoning(
    acls: Sequence[Acl], principal: Principal, host: str, operation: Operation, pattern: Pattern
) -> tuple[Decision, list[str]]:
    """What the ACLs decide, and the sentences that explain it."""
    from ruslo.machines.authorizer import Authorizer
    from ruslo.model.acls import WILDCARD, AclFilter, Operation, PatternType, Permission, ResourceType

    def decide(rules: Sequence[Acl]) -> Decision:
        authorizer = Authorizer()
        for rule in rules:
            authorizer.add(rule)
        found = authorizer.authorize(principal, host, operation, pattern.type, pattern.name)
        if operation == Operation.IDEMPOTENT_WRITE and isinstance(found.rule, str):
            # Every producer that may write to a topic may be idempotent.
            by_topic = authorizer.authorize_any(principal, host, Operation.WRITE, ResourceType.TOPIC)
            return by_topic if by_topic.allowed else found
        return found

    decision = decide(acls)
    rule = decision.rule
    if isinstance(rule, str):
        covering = AclFilter(pattern.type, pattern.name, PatternType.MATCH)
        others = sum(map(covering.matches, acls))
        count = "no ACL covers" if others == 0 else f"{others} ACLs cover"
        reasons = [f"No ACL allows it: {count} the resource, and without one that applies it is denied."]
    else:
        reasons = [f"This ACL decides: {rule}."]
        if decision.allowed and rule.operation == Operation.ALL:
            reasons.append("ALL includes every operation.")
        elif decision.allowed and rule.operation != operation:
            reasons.append(f"{Operation(rule.operation).name} includes {operation.name}.")
        if not decision.allowed:
            without_deny = decide([each for each in acls if each.permission != Permission.DENY])
            if without_deny.allowed:
                reasons.append(f"DENY takes precedence over this ACL: {without_deny.rule}.")
    if host == WILDCARD and any(each.host != WILDCARD for each in acls):
        reasons.append("ACLs of single hosts were left out. Add --host ADDRESS to include those of a client.")
    return decision, [*reasons, NOT_VISIBLE]
