"""``ruslo acl explain``: which ACL decides, and why."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json
from ruslo.client.views.acl_text import acl_json, parse_operation, parse_pattern

DENIED_EXIT_CODE = 3


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
    from ruslo.client.views.acl_explanation import explain as explain_decision
    from ruslo.model.principals import parse_principal

    try:
        client = parse_principal(principal)
        wanted = parse_operation(operation)
        pattern = parse_pattern(resource, literal=True)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    acls = with_admin(bootstrap, lambda admin: admin.acls.list())
    decision, reasons = explain_decision(acls, client, host, wanted, pattern)
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
