"""``ruslo user``: users that log in with SCRAM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.users import ScramUser
    from ruslo.model.scram import ScramMechanism

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@click.group(
    short_help="List, create and delete SCRAM users.",
    epilog=examples("ruslo user set-password alice", "ruslo user list"),
)
def user() -> None:
    """List, create and delete users that log in with SCRAM.

    The cluster stores their credentials. Users of PLAIN are in the brokers' property files, those of
    OAUTHBEARER and GSSAPI in other systems: they are not listed here.
    """


@user.command("list", epilog=examples("ruslo user list", "ruslo user list -o json"))
@bootstrap_option
@output_option
def list_users(bootstrap: str, output: str) -> None:
    """List the users and the mechanisms that they log in with."""
    found = with_admin(bootstrap, lambda admin: admin.users.list())
    _print(found, output)
    if not found:
        hint("Create one: ruslo user set-password NAME")


@user.command(epilog=examples("ruslo user describe alice", "ruslo user describe alice bob -o json"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@bootstrap_option
@output_option
def describe(names: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Show the mechanisms and iterations of users. Exit code 1: a user does not exist."""
    _print(with_admin(bootstrap, lambda admin: admin.users.list(dict.fromkeys(names))), output)


@user.command(
    "set-password",
    epilog=examples(
        "ruslo user set-password alice                       # asks for the password",
        "ruslo user set-password alice --password-file alice.txt",
        "RUSLO_PASSWORD=… ruslo user set-password alice --mechanism SCRAM-SHA-256 --iterations 8192",
    ),
)
@click.argument("name")
@bootstrap_option
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISMS, case_sensitive=False),
    help="Mechanism to log in with. Repeatable.  [default: both]",
)
@click.option(
    "--iterations",
    type=click.IntRange(4096, 16384),
    default=4096,
    show_default=True,
    help="Iterations of the password hash.",
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the password (or set RUSLO_PASSWORD).",
)
@output_option
def set_password(
    name: str,
    bootstrap: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
    output: str,
) -> None:
    """Create the user NAME, or replace its password. The password itself is not sent to the cluster."""
    from ruslo.cli.arguments.secrets import ask_password

    password = ask_password(f"Password of {name}", password_file)
    chosen = _mechanisms(mechanisms or MECHANISMS)

    async def change(admin: Admin) -> list[ScramUser]:
        for mechanism in chosen:
            await admin.users.set_password(name, password, mechanism, iterations=iterations)
        return await admin.users.list([name])

    found = with_admin(bootstrap, change)
    if output == "json":
        _print(found, output)
    else:
        click.echo(f"set the password of {name}")
        hint(f"Allow it to read a topic: ruslo acl allow User:{name} read topic:NAME")


@user.command(
    epilog=examples(
        "ruslo user delete alice --yes", "ruslo user delete alice --mechanism SCRAM-SHA-256 --yes"
    )
)
@click.argument("name")
@bootstrap_option
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISMS, case_sensitive=False),
    help="Delete only the credential of this mechanism. Repeatable.",
)
@yes_option
@output_option
def delete(name: str, bootstrap: str, mechanisms: tuple[str, ...], yes: bool, output: str) -> None:
    """Delete the credentials of the user NAME. Its ACLs and quotas stay."""
    confirm(f"Delete the credentials of {name}?", yes)

    async def remove(admin: Admin) -> list[ScramMechanism]:
        (existing,) = await admin.users.list([name])
        chosen = _mechanisms(mechanisms) or list(existing.iterations)
        await admin.users.delete(name, chosen)
        return chosen

    deleted = with_admin(bootstrap, remove)
    if output == "json":
        print_json({"name": name, "deleted": [_shown(each) for each in deleted]})
    else:
        click.echo(f"deleted {name}: {', '.join(map(_shown, deleted))}")


def _mechanisms(names: tuple[str, ...]) -> list[ScramMechanism]:
    from ruslo.model.scram import ScramMechanism

    return [ScramMechanism[name.upper().replace("-", "_")] for name in names]


def _shown(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")


def _print(users: list[ScramUser], output: str) -> None:
    if output == "json":
        print_json(
            [
                {
                    "name": each.name,
                    "mechanisms": {_shown(kind): count for kind, count in each.iterations.items()},
                }
                for each in users
            ]
        )
    elif users:
        rows = [(each.name, _shown(kind), count) for each in users for kind, count in each.iterations.items()]
        print_table(["USER", "MECHANISM", "ITERATIONS"], rows)
    else:
        click.echo("No SCRAM users found.")
