"""``ruslo cert create-ca``"""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.cert.days import days_option
from ruslo.cli.terminal.output import hint, print_json, shown_time


@click.command(
    "create-ca",
    epilog=examples(
        "ruslo cert create-ca",
        "ruslo cert create-ca certs --name 'Team CA' --days 730",
    ),
)
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("."), metavar="[FOLDER]"
)
@click.option(
    "--name", default="Ruslo development CA", show_default=True, help="Name (CN) in the CA's certificate."
)
@days_option(3650)
@click.option("--force", is_flag=True, help="Replace an existing CA; its certificates are not trusted then.")
@output_option
def create_ca(folder: Path, name: str, days: int, force: bool, output: str) -> None:
    """Create a certificate authority: FOLDER/ca.pem and FOLDER/ca.key (default: the current folder).

    Brokers and clients trust ca.pem (ssl.truststore.location). Keep ca.key secret: with it any program
    can impersonate every broker and client.
    """
    from ruslo.net.tls.authority_files import CERTIFICATE_FILE, KEY_FILE, write_authority
    from ruslo.net.tls.development_ca import DevelopmentCa

    certificate, key = folder / CERTIFICATE_FILE, folder / KEY_FILE
    existing = next((path for path in (certificate, key) if path.exists()), None)
    if existing is not None and not force:
        raise click.ClickException(
            f"{existing} already exists. Choose another folder, or add --force to replace the CA; the "
            "certificates that it issued are then not trusted any more."
        )
    try:
        authority = DevelopmentCa.new(name, days=days)
    except ValueError as error:
        raise click.BadParameter(f"{name!r} cannot be the name of a CA: {error}.") from None
    write_authority(folder, authority)
    if output == "json":
        print_json(
            {"certificate": str(certificate), "key": str(key), "expires_at_ms": authority.expires_at_ms}
        )
        return
    click.echo(f"created {certificate} and {key}, valid until {shown_time(authority.expires_at_ms)}")
    hint(f"Issue a certificate: ruslo cert issue NAME --ca {folder} --host HOST")
