"""``ruslo console``: run the web console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.terminal.output import hint, print_json_line

if TYPE_CHECKING:
    from ruslo.net.openid.exchange import ClientRegistration


def _secret_callback(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    from ruslo.cli.arguments.client_settings import resolve_reference

    return None if value is None else resolve_reference(ctx, param, "--oidc-client-secret", value)


@click.command(
    short_help="Run the web console.",
    epilog=examples(
        "ruslo console",
        "ruslo console -b kafka-1:9092,kafka-2:9092 --read-only",
        "ruslo console --port 0 -o json                  # any free port; prints the address as JSON",
        "ruslo console -b kafka-1:9093 --command-config client.properties --login sasl",
        "ruslo console --command-config client.properties --login oidc --oidc-issuer https://id.example.org "
        "--oidc-client-id console",
        "ruslo console --audit-log /var/log/ruslo/audit.log",
        "RUSLO_CONSOLE_PASSWORD=… ruslo console --host 0.0.0.0 --host-name console.example.org",
    ),
)
@bootstrap_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. All but loopback addresses need a password.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8090,
    show_default=True,
    help="Port to listen on; 0 takes a free port.",
)
@click.option("--read-only", is_flag=True, help="Disable all changes.")
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the password (or set RUSLO_CONSOLE_PASSWORD).",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="Host name that browsers use, besides localhost. Repeatable.",
)
@click.option(
    "--login",
    type=click.Choice(["password", "sasl", "oidc"]),
    default="password",
    show_default=True,
    help="Log in with the console's password, as a user of the cluster, or with an identity provider "
    "(OpenID Connect). With the last two the user's own ACLs apply.",
)
@click.option("--oidc-issuer", metavar="URL", help="Identity provider, as it names itself in its tokens.")
@click.option("--oidc-client-id", metavar="ID", help="The console's client id at the identity provider.")
@click.option(
    "--oidc-client-secret",
    metavar="SECRET",
    callback=_secret_callback,
    help="The client's secret: @FILE, env:VARIABLE or prompt. Public clients have none.",
)
@click.option(
    "--oidc-scopes",
    default="openid",
    show_default=True,
    metavar="SCOPES",
    help="Scopes to request, separated by spaces; offline_access often brings a refresh token.",
)
@click.option(
    "--oidc-redirect-uri",
    metavar="URL",
    help="Address of /login/callback in browsers, if a proxy changes it.",
)
@click.option(
    "--audit-log",
    "audit_logs",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="File of ruslo.audit.log to show. Repeatable.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False),
    help="PEM file with the certificate chain: serve HTTPS. Changed files are read again.",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False), help="PEM file with the certificate's key."
)
@output_option
def console(
    bootstrap: str,
    host: str,
    port: int,
    read_only: bool,
    password_file: Path | None,
    host_names: tuple[str, ...],
    login: str,
    tls_certificate: str | None,
    tls_key: str | None,
    oidc_issuer: str | None,
    oidc_client_id: str | None,
    oidc_client_secret: str | None,
    oidc_scopes: str,
    oidc_redirect_uri: str | None,
    audit_logs: tuple[str, ...],
    output: str,
) -> None:
    """Run the web console until Ctrl-C.

    It works with Ruslo clusters and with Apache Kafka, and prints its address when it is ready.
    """
    import os
    from dataclasses import replace

    from ruslo.client.settings.bootstrap_servers import parse_bootstrap
    from ruslo.console.serving import address_of, bind, require_packages, serve
    from ruslo.console.settings import ConsoleSettings, Login

    require_packages()
    parse_bootstrap(bootstrap)
    password = os.environ.get("RUSLO_CONSOLE_PASSWORD") or None
    if password_file is not None:
        password = (password_file.read_text().splitlines() or [""])[0].strip() or None
        if password is None:
            raise click.UsageError(f"The first line of {password_file} is empty. Write the password there.")
    settings = ConsoleSettings(
        bootstrap,
        host,
        port,
        read_only,
        password,
        host_names,
        security=_security_settings(),
        login=Login(login),
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        openid=_registration(login, oidc_issuer, oidc_client_id, oidc_client_secret, oidc_scopes),
        redirect_uri=oidc_redirect_uri,
        audit_logs=audit_logs,
    )
    listener = bind(host, port)
    address = address_of(listener, "https" if settings.is_https else "http")

    def announce() -> None:
        if output == "json":
            print_json_line({"address": address, "bootstrap": bootstrap, "read_only": read_only})
        else:
            click.echo(f"console: {address}")
        hint("Press Ctrl-C to stop.")

    serve(replace(settings, port=listener.getsockname()[1]), listener, announce)


def _registration(
    login: str, issuer: str | None, client_id: str | None, client_secret: str | None, scopes: str
) -> ClientRegistration | None:
    from ruslo.model.secret import Secret
    from ruslo.net.openid.exchange import ClientRegistration

    if login != "oidc":
        if issuer or client_id or client_secret:
            raise click.UsageError("The --oidc options need --login oidc.")
        return None
    secret = Secret(client_secret) if client_secret else None
    return ClientRegistration(issuer or "", client_id or "", secret, scopes)


def _security_settings() -> dict[str, str]:
    from ruslo.cli.arguments.client_settings import client_settings
    from ruslo.client.settings.channel_security import is_security_setting

    return {name: value for name, value in client_settings().items() if is_security_setting(name)}
