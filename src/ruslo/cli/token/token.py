"""``ruslo token``: delegation tokens, with which programs log in for a user without its password."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.duration import parse_duration_ms
from ruslo.cli.arguments.options import (
    bootstrap_option,
    confirm,
    examples,
    output_option,
    parsed,
    yes_option,
)
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_fields, print_json, print_table, shown_time

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.tokens import DelegationToken
    from ruslo.model.principals import Principal


def _principal(text: str) -> Principal:
    from ruslo.model.principals import parse_principal

    return parse_principal(text)


def _principals(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Principal, ...]:
    found = (parsed(_principal)(ctx, param, value) for value in values)
    return tuple(each for each in found if each is not None)


@click.group(
    short_help="Create, list, renew and expire delegation tokens.",
    epilog=examples("ruslo token create --password-file job.txt", "ruslo token list"),
)
def token() -> None:
    """Create, list, renew and expire delegation tokens.

    A program logs in with SCRAM: the token's ID is the user, its HMAC is the password, and the JAAS line
    has tokenauth=true. It then has the permissions of the token's owner. All nodes need the same
    delegation.token.secret.key.
    """


@token.command(
    epilog=examples(
        "ruslo token create --password-file job.txt          # the HMAC goes into a file of mode 0600",
        "ruslo token create --renewer User:scheduler --max-lifetime 2d -o json",
        "ruslo token create --owner User:etl",
    )
)
@bootstrap_option
@click.option(
    "--renewer",
    "renewers",
    multiple=True,
    metavar="PRINCIPAL",
    callback=_principals,
    help="Principal that may renew the token, besides its owner. Repeatable.",
)
@click.option(
    "--max-lifetime",
    "max_lifetime_ms",
    metavar="DURATION",
    callback=parsed(parse_duration_ms),
    help="The token cannot be renewed beyond this time: 90s, 2h, 7d or PT2H30M (default: the broker's).",
)
@click.option(
    "--owner",
    metavar="PRINCIPAL",
    callback=parsed(_principal),
    help="Owner of the token (default: the user of this command). Another needs CREATE_TOKENS on user:OWNER.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="New file for the HMAC, which is then not printed.",
)
@output_option
def create(
    bootstrap: str,
    renewers: tuple[Principal, ...],
    max_lifetime_ms: int | None,
    owner: Principal | None,
    password_file: Path | None,
    output: str,
) -> None:
    """Create a token and print its HMAC, which is a password."""
    if password_file is not None and password_file.exists():
        raise click.UsageError(f"{password_file} exists already. Name another file.")
    lifetime_ms = -1 if max_lifetime_ms is None else max_lifetime_ms

    async def request(admin: Admin) -> DelegationToken:
        return await admin.tokens.create(renewers=renewers, max_lifetime_ms=lifetime_ms, owner=owner)

    created = with_admin(bootstrap, request)
    password = created.hmac.reveal()
    if password_file is not None:
        descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{password}\n")
    if output == "json":
        print_json(_json(created) | ({} if password_file else {"hmac": password}))
        return
    print_fields(
        [
            ("token", created.token_id),
            ("HMAC", f"written to {password_file}" if password_file else password),
            ("owner", created.owner),
            ("expires", shown_time(created.expires_at_ms)),
            ("renewable until", shown_time(created.max_at_ms)),
        ]
    )
    if not password_file:
        hint("The HMAC is a password: keep it secret.")


@token.command("list", epilog=examples("ruslo token list", "ruslo token list --owner User:etl -o json"))
@bootstrap_option
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="PRINCIPAL",
    callback=_principals,
    help="Only its tokens. Repeatable.",
)
@output_option
def list_tokens(bootstrap: str, owners: tuple[Principal, ...], output: str) -> None:
    """List the tokens that the user of this command owns, may renew or may describe."""
    found = with_admin(bootstrap, lambda admin: admin.tokens.list(owners or None))
    if output == "json":
        print_json([_json(each) for each in found])
    elif found:
        rows = [
            (
                each.token_id,
                each.owner,
                ", ".join(map(str, each.renewers)),
                shown_time(each.expires_at_ms),
                shown_time(each.max_at_ms),
            )
            for each in found
        ]
        print_table(["TOKEN", "OWNER", "RENEWERS", "EXPIRES", "RENEWABLE UNTIL"], rows)
    else:
        click.echo("No delegation tokens found.")


@token.command(epilog=examples("ruslo token renew ID", "ruslo token renew ID --for 12h -o json"))
@click.argument("token_id", metavar="ID")
@bootstrap_option
@click.option(
    "--for",
    "period_ms",
    metavar="DURATION",
    callback=parsed(parse_duration_ms),
    help="Time until it expires, from now on (default: that of the broker).",
)
@output_option
def renew(token_id: str, bootstrap: str, period_ms: int | None, output: str) -> None:
    """Let the token ID expire later."""

    async def request(admin: Admin) -> int:
        found = await _find(admin, token_id)
        return await admin.tokens.renew(found.hmac, -1 if period_ms is None else period_ms)

    _print_expiry(token_id, with_admin(bootstrap, request), output)


@token.command(epilog=examples("ruslo token expire ID --yes", "ruslo token expire ID --after 1h"))
@click.argument("token_id", metavar="ID")
@bootstrap_option
@click.option(
    "--after",
    "after_ms",
    metavar="DURATION",
    callback=parsed(parse_duration_ms),
    help="Expire it after this time (default: at once).",
)
@yes_option
@output_option
def expire(token_id: str, bootstrap: str, after_ms: int | None, yes: bool, output: str) -> None:
    """Let the token ID expire, at once by default. Its connections are closed then."""
    if after_ms is None:
        confirm(f"Expire the token {token_id} at once?", yes)

    async def request(admin: Admin) -> int:
        found = await _find(admin, token_id)
        return await admin.tokens.expire(found.hmac, -1 if after_ms is None else after_ms)

    _print_expiry(token_id, with_admin(bootstrap, request), output)


async def _find(admin: Admin, token_id: str) -> DelegationToken:
    for each in await admin.tokens.list():
        if each.token_id == token_id:
            return each
    raise click.ClickException(
        f"There is no token {token_id}, or this user may not see it. List the visible ones: ruslo token list"
    )


def _print_expiry(token_id: str, expires_at_ms: int, output: str) -> None:
    if output == "json":
        print_json({"token": token_id, "expires_at_ms": expires_at_ms})
    else:
        click.echo(f"{token_id} expires at {shown_time(expires_at_ms)}")


def _json(token: DelegationToken) -> dict[str, object]:
    """Without the HMAC."""
    return {
        "token": token.token_id,
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issued_at_ms": token.issued_at_ms,
        "expires_at_ms": token.expires_at_ms,
        "max_at_ms": token.max_at_ms,
    }
