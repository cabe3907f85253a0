"""The client settings of a command: of the active profile, of ``--command-config``, and of ``-X``.

The later ones take precedence. Other users of the machine see arguments, so a secret is never an argument:
``-X`` takes a reference to it, and a password that is missing everywhere is asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ruslo.cli.arguments.profiles import BOOTSTRAP, active_profile

if TYPE_CHECKING:
    from ruslo.net.channel import ChannelSettings

PASSWORD_VARIABLE: Final = "RUSLO_SASL_PASSWORD"
REFERENCES: Final = "@FILE, env:VARIABLE or prompt"
_SECRET_WORDS = ("password", "secret", "passphrase", "jaas", "key.pem", "keystore.key", "token", "assertion")
_NOT_SECRET_WORDS = (".url", ".lifetime", ".file", ".seconds", ".ms", ".type", ".class", "claim", "algorithm")
_CERTIFICATES = (
    "ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.ca.pem", "ssl.certificate.pem",
)  # fmt: skip
_FILE = "ruslo.cli.command-config"
_GIVEN = "ruslo.cli.properties"


def is_secret(name: str) -> bool:
    """Whether the value of a setting must not be shown."""
    return any(word in name for word in _SECRET_WORDS) and not any(word in name for word in _NOT_SECRET_WORDS)


def settings_callback(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` arguments; the values of secrets and certificates are references."""
    from ruslo.cli.arguments.options import pairs_callback

    pairs = pairs_callback(ctx, param, values)
    return {name: resolve_reference(ctx, param, name, value) for name, value in pairs.items()}


def resolve_reference(ctx: click.Context, param: click.Parameter, name: str, value: str) -> str:
    """The value that an argument stands for. Raises BadParameter for a secret in the argument itself."""
    if not is_secret(name) and name not in _CERTIFICATES:
        return value
    if value.startswith("@"):
        try:
            return Path(value[1:]).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise click.BadParameter(f"{name}: cannot read {value[1:]}: {reason}.", ctx, param) from None
    if value.startswith("env:"):
        found = os.environ.get(value[4:])
        if not found:
            raise click.BadParameter(f"{name}: the variable {value[4:]} is not set.", ctx, param)
        return found
    if value == "prompt":
        return ask_secret(name)
    if not value or name in _CERTIFICATES:
        return value
    raise click.BadParameter(
        f"{name} is a secret, and other users of this machine see arguments. Use {name}=@FILE, "
        f"{name}=env:VARIABLE or {name}=prompt, or put it into a file for --command-config.",
        ctx,
        param,
    )


def ask_secret(name: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError(f"Cannot ask for {name}: stdin is not a terminal. Use @FILE or env:VARIABLE.")
    return str(click.prompt(name, hide_input=True, err=True))


def keep_properties(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> None:
    """The callback of ``-X``."""
    if not ctx.resilient_parsing:
        ctx.meta[_GIVEN] = settings_callback(ctx, param, values)


def keep_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """The callback of ``--command-config``."""
    if value is None or ctx.resilient_parsing:
        return
    from ruslo.config.properties import decode_properties, parse_properties
    from ruslo.config.providers import resolve_providers
    from ruslo.model.errors import ConfigError

    try:
        found = resolve_providers(parse_properties(decode_properties(value.read_bytes())))
    except ConfigError as error:
        raise click.BadParameter(f"{value}: {error}", ctx, param) from None
    ctx.meta[_FILE] = {name: text for name, text in found.items() if not name.startswith("config.providers")}


def given_settings() -> dict[str, str]:
    """The settings of the command line."""
    ctx = click.get_current_context(silent=True)
    return {} if ctx is None else {**ctx.meta.get(_FILE, {}), **ctx.meta.get(_GIVEN, {})}


def client_settings() -> dict[str, str]:
    """All client settings of the command, without the address."""
    profile = active_profile()
    settings = {**({} if profile is None else profile.settings), **given_settings()}
    settings.pop(BOOTSTRAP, None)
    return _with_password(settings)


def _with_password(settings: dict[str, str]) -> dict[str, str]:
    """Add the password of ``sasl.username`` if no setting holds it."""
    if "sasl.username" not in settings or settings.keys() & {"sasl.password", "sasl.jaas.config"}:
        return settings
    password = os.environ.get(PASSWORD_VARIABLE)
    if not password:
        if not sys.stdin.isatty():
            raise click.UsageError(
                f"No password of the user {settings['sasl.username']}. Set {PASSWORD_VARIABLE}, or use "
                "-X sasl.password=@FILE; stdin is not a terminal."
            )
        password = str(click.prompt(f"Password of {settings['sasl.username']}", hide_input=True, err=True))
    return {**settings, "sasl.password": password}


def uses_tls(settings: Mapping[str, object]) -> bool:
    return str(settings.get("security.protocol", "PLAINTEXT")).upper().endswith("SSL")


def channel_settings() -> ChannelSettings:
    """How the native client of the command connects."""
    from ruslo.client.settings.channel_security import channel_security
    from ruslo.net.channel import ChannelSettings

    settings = client_settings()
    defaults = ChannelSettings()
    return ChannelSettings(
        client_id=settings.get("client.id", defaults.client_id),
        request_timeout_ms=_milliseconds(settings, "request.timeout.ms", defaults.request_timeout_ms),
        connect_timeout_ms=_milliseconds(
            settings, "socket.connection.setup.timeout.ms", defaults.connect_timeout_ms
        ),
        security=channel_security(settings),
    )


def _milliseconds(settings: Mapping[str, str], name: str, default: int) -> int:
    from ruslo.model.errors import ConfigError

    text = settings.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal():
        raise ConfigError(f"{name}={text} is not a number. Give a whole number of milliseconds")
    return int(text)
