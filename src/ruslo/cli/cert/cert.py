"""``ruslo cert``: certificates for development."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.cert.create_ca import create_ca
from ruslo.cli.cert.describe import describe
from ruslo.cli.cert.issue import issue


@click.group(
    short_help="Create certificates for development, and describe certificates.",
    epilog=examples(
        "ruslo cert create-ca certs",
        "ruslo cert issue kafka1 --ca certs --host kafka1.example.com",
        "ruslo cert describe certs/kafka1.pem",
    ),
)
def cert() -> None:
    """Create certificates for development, and describe certificates.

    A certificate authority (CA) of your own signs the certificates of brokers and clients. For production,
    use the CA of your organisation.
    """


for command in (create_ca, issue, describe):
    cert.add_command(command)
