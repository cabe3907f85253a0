"""``ruslo cert describe``"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.arguments.secrets import PASSWORD_VARIABLE, first_line
from ruslo.cli.terminal.output import print_fields, print_json, shown_time

if TYPE_CHECKING:
    from ruslo.net.tls.certificate_facts import CertificateFacts, StoreFacts


@click.command(
    epilog=examples(
        "ruslo cert describe certs/kafka1.pem",
        "ruslo cert describe certs/billing.p12 --password-file billing.txt -o json",
    )
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the password of a PKCS12 file (or set RUSLO_PASSWORD).",
)
@output_option
def describe(file: Path, password_file: Path | None, output: str) -> None:
    """Show the certificates of a PEM, DER or PKCS12 file. Exit code 1: one has expired.

    The private key of the file is not shown.
    """
    from ruslo.model.clock import SystemClock

    now_ms = SystemClock().now_ms()
    store = _read(file, password_file)
    if output == "json":
        print_json(
            {
                "file": str(file),
                "private_key": store.has_key,
                "certificates": [_as_json(each, now_ms) for each in store.certificates],
            }
        )
    else:
        _print(file, store)
    expired = [each for each in store.certificates if each.not_after_ms <= now_ms]
    if expired:
        raise click.ClickException(
            f"The certificate of {expired[0].subject} expired on {shown_time(expired[0].not_after_ms)}. "
            "Issue a new one, for development with 'ruslo cert issue'."
        )


def _read(file: Path, password_file: Path | None) -> StoreFacts:
    from ruslo.model.secret import Secret
    from ruslo.net.tls.certificate_facts import PasswordNeeded, read_store

    data = file.read_bytes()
    given = first_line(password_file) if password_file else os.environ.get(PASSWORD_VARIABLE)
    try:
        try:
            return read_store(data, Secret(given) if given else None)
        except PasswordNeeded:
            if given:
                raise
            return read_store(data, Secret(_ask_password(file)))
    except PasswordNeeded:
        raise click.ClickException(
            f"{file} is not a PKCS12 file, or the password is wrong. Check both."
        ) from None
    except ValueError as error:
        raise click.ClickException(
            f"{file} contains no certificate that can be read: {error}. Name a PEM, DER or PKCS12 file."
        ) from None


def _ask_password(file: Path) -> str:
    if not sys.stdin.isatty():
        raise click.ClickException(
            f"{file} needs a password, or is not a PKCS12 file. Use --password-file FILE, or set "
            f"{PASSWORD_VARIABLE}; stdin is not a terminal."
        )
    return str(click.prompt(f"Password of {file}", hide_input=True, err=True))


def _print(file: Path, store: StoreFacts) -> None:
    click.echo(f"{file}: {'a private key and ' if store.has_key else ''}{_count(len(store.certificates))}")
    for each in store.certificates:
        click.echo()
        print_fields(
            [
                ("Subject", each.subject),
                ("Names", each.names),
                ("Issuer", each.issuer),
                ("Valid from", shown_time(each.not_before_ms)),
                ("Valid until", shown_time(each.not_after_ms)),
                ("Usage", each.usages or "any"),
                ("Key", each.key),
                ("Serial", each.serial),
                ("SHA-256", each.fingerprint),
            ]
        )


def _count(certificates: int) -> str:
    return "1 certificate" if certificates == 1 else f"{certificates} certificates"


def _as_json(facts: CertificateFacts, now_ms: int) -> dict[str, object]:
    return {
        "subject": facts.subject,
        "names": list(facts.names),
        "issuer": facts.issuer,
        "valid_from_ms": facts.not_before_ms,
        "expires_at_ms": facts.not_after_ms,
        "expired": facts.not_after_ms <= now_ms,
        "usages": list(facts.usages),
        "key": facts.key,
        "serial": facts.serial,
        "sha256": facts.fingerprint,
    }
