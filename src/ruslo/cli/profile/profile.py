"""``ruslo profile``: save clusters by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_profiles
from ruslo.cli.arguments.options import confirm, examples, output_option, yes_option
from ruslo.cli.terminal.output import hint, print_fields, print_json, print_table

if TYPE_CHECKING:
    from ruslo.cli.arguments.profiles import Profile


def _settings(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    from ruslo.cli.arguments.client_settings import settings_callback

    return settings_callback(ctx, param, values)


@click.group(
    short_help="Save clusters by name and switch between them.",
    epilog=examples(
        "ruslo profile create prod -b kafka1.example.com:9092,kafka2.example.com:9092",
        "ruslo profile use prod",
        "ruslo --profile staging topic list",
    ),
)
def profile() -> None:
    """Save clusters by name and switch between them.

    A profile is a property file in ~/.config/ruslo/profiles with bootstrap.servers and other client
    properties. A command uses the first of: --bootstrap-server, the profile of --profile, RUSLO_BOOTSTRAP,
    the profile of RUSLO_PROFILE, the profile in use, 127.0.0.1:9092.
    """


@profile.command(
    epilog=examples(
        "ruslo profile create prod -b kafka1.example.com:9092",
        "ruslo profile create prod -b kafka1:9093 -X security.protocol=SSL -X ssl.truststore.location=ca.pem",
        "ruslo profile create ops -b kafka1:9093 -X security.protocol=SASL_SSL "
        "-X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=ops -X sasl.password=@pw.txt",
    )
)
@click.argument("name")
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    required=True,
    metavar="HOST:PORT[,…]",
    help="Brokers of the cluster.",
)
@click.option(
    "-X",
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_settings,
    help="A client property; secrets are @FILE, env:VARIABLE or prompt. Repeatable.",
)
@click.option("--force", is_flag=True, help="Replace an existing profile.")
@output_option
def create(name: str, bootstrap: str, properties: dict[str, str], force: bool, output: str) -> None:
    """Create the profile NAME. The first profile is used at once."""
    from ruslo.cli.arguments.profiles import BOOTSTRAP, Profile, ProfileStore
    from ruslo.client.librdkafka.consumer import Consumer
    from ruslo.client.librdkafka.producer import Producer
    from ruslo.client.settings.channel_security import channel_security
    from ruslo.client.settings.tables import for_consumers, for_producers

    store = ProfileStore()
    if store.path(name).exists() and not force:
        raise click.ClickException(f"Profile {name!r} already exists. Add --force to replace it.")
    made = Profile(name, {BOOTSTRAP: bootstrap, **properties})
    # Validate the properties now, not in the first command that uses them.
    settings = _with_some_password(made.settings)
    Producer({**for_producers(settings), "log_level": 0}).close()
    Consumer({**for_consumers(settings), "log_level": 0}).close()
    channel_security(settings)
    store.write(made)
    if store.in_use() is None:
        store.use(name)
    if output == "json":
        print_json(_as_json(made, store.in_use() == name))
    else:
        click.echo(f"created {name}" + (" (in use)" if store.in_use() == name else ""))
        if store.in_use() != name:
            hint(f"Switch to it: ruslo profile use {name}")


@profile.command(epilog=examples("ruslo profile use prod", "ruslo profile use staging -o json"))
@click.argument("name", shell_complete=complete_profiles)
@output_option
def use(name: str, output: str) -> None:
    """Switch to the profile NAME."""
    from ruslo.cli.arguments.profiles import BOOTSTRAP, ProfileStore

    store = ProfileStore()
    store.use(name)
    chosen = store.read(name)
    if output == "json":
        print_json(_as_json(chosen, True))
    else:
        click.echo(f"using {name} at {chosen.settings.get(BOOTSTRAP, 'no address')}")


@profile.command("list", epilog=examples("ruslo profile list", "ruslo profile list -o yaml"))
@output_option
def list_profiles(output: str) -> None:
    """List the profiles; * marks the profile in use."""
    from ruslo.cli.arguments.profiles import BOOTSTRAP, ProfileStore

    store = ProfileStore()
    in_use = store.in_use()
    profiles = [store.read(name) for name in store.names()]
    if output == "json":
        print_json([_as_json(each, each.name == in_use) for each in profiles])
    elif profiles:
        rows = [
            ("*" if each.name == in_use else "", each.name, each.settings.get(BOOTSTRAP)) for each in profiles
        ]
        print_table(["", "NAME", "BROKERS"], rows)
    else:
        click.echo("No profiles found.")
        hint("Create one: ruslo profile create prod -b HOST:PORT")


@profile.command(epilog=examples("ruslo profile show", "ruslo profile show prod -o json"))
@click.argument("name", required=False, shell_complete=complete_profiles)
@output_option
def show(name: str | None, output: str) -> None:
    """Show the properties of a profile (default: the active one), without secrets."""
    from ruslo.cli.arguments.profiles import ProfileStore, active_profile

    store = ProfileStore()
    shown = active_profile() if name is None else store.read(name)
    if shown is None:
        raise click.ClickException("No profile is in use. Choose one with 'ruslo profile use NAME'.")
    if output == "json":
        print_json(_as_json(shown, store.in_use() == shown.name))
    else:
        print_fields(
            [("Profile", shown.name), ("File", store.path(shown.name)), *_without_secrets(shown).items()]
        )


@profile.command(epilog=examples("ruslo profile delete staging --yes"))
@click.argument("name", shell_complete=complete_profiles)
@yes_option
@output_option
def delete(name: str, yes: bool, output: str) -> None:
    """Delete the profile NAME. The cluster is not changed."""
    from ruslo.cli.arguments.profiles import ProfileStore

    store = ProfileStore()
    store.read(name)
    confirm(f"Delete the profile {name}?", yes)
    store.delete(name)
    if output == "json":
        print_json({"deleted": name})
    else:
        click.echo(f"deleted {name}")


def _with_some_password(settings: dict[str, str]) -> dict[str, str]:
    """A profile may leave out the password: commands then ask for it."""
    return {"sasl.password": "-", **settings} if "sasl.username" in settings else settings


def _as_json(shown: Profile, in_use: bool) -> dict[str, object]:
    return {"name": shown.name, "in_use": in_use, "settings": _without_secrets(shown)}


def _without_secrets(shown: Profile) -> dict[str, str]:
    from ruslo.cli.arguments.client_settings import is_secret

    return {key: "[hidden]" if is_secret(key) else value for key, value in shown.settings.items()}
