"""``ruslo cert issue``"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.cert.days import days_option
from ruslo.cli.terminal.output import hint, print_json, shown_time

if TYPE_CHECKING:
    from ruslo.model.secret import Secret
    from ruslo.net.tls.development_ca import DevelopmentCa

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_MAX_ORGANIZATION_LENGTH = 64
_SUFFIXES = {"pem": ".pem", "pkcs12": ".p12"}


def _name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not _NAME.fullmatch(value) or value == "ca":
        raise click.BadParameter(
            f"{value!r} cannot name a certificate. Use up to 64 letters, digits, '.', '_' and '-', but not "
            "'ca'.",
            ctx,
            param,
        )
    return value


def _organization(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not 0 < len(value) <= _MAX_ORGANIZATION_LENGTH:
        raise click.BadParameter(
            f"Its length is {len(value)}. Use 1 to {_MAX_ORGANIZATION_LENGTH} characters.", ctx, param
        )
    return value


def _hosts(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    for value in values:
        if not _is_host(value):
            raise click.BadParameter(
                f"{value!r} is not a host name or IP address. Write it without a port, such as "
                "kafka1.example.com or 10.0.0.7.",
                ctx,
                param,
            )
    return tuple(values)


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


@click.command(
    epilog=examples(
        "ruslo cert issue kafka1 --ca certs --host kafka1.example.com --host 10.0.0.7",
        "ruslo cert issue billing --ca certs --client",
        "ruslo cert issue billing --ca certs --client --format pkcs12 --password-file billing.txt",
    )
)
@click.argument("name", callback=_name)
@click.option(
    "--ca",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("."),
    show_default="the current folder",
    help="Folder of the CA; the certificate is written there, too.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    callback=_hosts,
    help="Host name or IP address under which clients reach the broker. Repeatable.",
)
@click.option("--client", is_flag=True, help="A certificate for a client instead of a broker.")
@click.option(
    "--organization", metavar="NAME", callback=_organization, help="Organization (O) of the subject."
)
@days_option(365)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_SUFFIXES)),
    default="pem",
    show_default=True,
    help="pem: NAME.pem, without a password. pkcs12: NAME.p12 for Java programs, with a password.",
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the password of NAME.p12 (or set RUSLO_PASSWORD).",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_option
def issue(
    name: str,
    ca: Path,
    hosts: tuple[str, ...],
    client: bool,
    organization: str | None,
    days: int,
    kind: str,
    password_file: Path | None,
    force: bool,
    output: str,
) -> None:
    """Issue a certificate for a broker, or with --client for a client, and write it with its key.

    The file contains the private key, the certificate and the one of the CA, for ssl.keystore.location.
    Only its owner may read it. The subject is CN=NAME; a client that logs in with the certificate is
    User:CN=NAME, unless ssl.principal.mapping.rules change it.
    """
    from ruslo.net.tls.authority_files import read_authority
    from ruslo.net.tls.certificate_facts import facts_of_pem
    from ruslo.net.tls.key_stores import key_store_pem, key_store_pkcs12
    from ruslo.net.tls.private_files import write_private_file

    _check_purpose(hosts, client)
    file = ca / f"{name}{_SUFFIXES[kind]}"
    if file.exists() and not force:
        raise click.ClickException(f"{file} already exists. Add --force to replace it.")
    authority = read_authority(ca)
    _check_not_expired(authority, ca)
    password = _password(kind, file, password_file)
    issued = authority.issue(name, hosts, organization=organization, days=days, client_only=client)
    content = key_store_pem(issued) if password is None else key_store_pkcs12(issued, name, password)
    write_private_file(file, content)
    facts = facts_of_pem(issued.chain)
    if output == "json":
        print_json(
            {
                "file": str(file),
                "subject": facts.subject,
                "names": list(facts.names),
                "usages": list(facts.usages),
                "expires_at_ms": facts.not_after_ms,
            }
        )
        return
    click.echo(f"issued {file} for {facts.subject}, valid until {shown_time(facts.not_after_ms)}")
    hint(f"Use it: ssl.keystore.type={kind.upper()}, ssl.keystore.location={file}; clients trust {ca}/ca.pem")


def _check_purpose(hosts: tuple[str, ...], client: bool) -> None:
    if client and hosts:
        raise click.UsageError("The certificate of a client contains no hosts. Remove --host or --client.")
    if not client and not hosts:
        raise click.UsageError(
            "Clients compare the host of a broker with its certificate. Add --host HOST, or --client for the "
            "certificate of a client."
        )


def _check_not_expired(authority: DevelopmentCa, folder: Path) -> None:
    from ruslo.model.clock import SystemClock

    if authority.expires_at_ms <= SystemClock().now_ms():
        raise click.ClickException(
            f"The CA of {folder} expired on {shown_time(authority.expires_at_ms)}. Create a new one with "
            f"'ruslo cert create-ca {folder} --force', and issue the certificates again."
        )


def _password(kind: str, file: Path, password_file: Path | None) -> Secret | None:
    from ruslo.cli.arguments.secrets import ask_password

    if kind == "pkcs12":
        return ask_password(f"Password of {file}", password_file)
    if password_file is not None:
        raise click.UsageError("A PEM file has no password. Remove --password-file, or add --format pkcs12.")
    return None
