"""Translates Java's TLS and SASL settings for librdkafka.

librdkafka reads PEM files (or PKCS12 for the client's key) instead of Java's key stores, and has a user and
password instead of JAAS.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TypeAlias

from ruslo.client.settings.checking import Checked
from ruslo.config.jaas import parse_jaas
from ruslo.model.secret import Secret

Value: TypeAlias = str | int | float | bool

_TYPE_BY_SUFFIX = {".pem": "PEM", ".crt": "PEM", ".cer": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}
_TO_PEM = "convert it with keytool and openssl, then set its type to PEM"
_PASSWORD_LOGINS = ("PlainLoginModule", "ScramLoginModule")


def security_settings(checked: Checked) -> dict[str, Value]:
    settings: dict[str, Value] = {}
    if "ssl.truststore.location" in checked:
        location = checked.text("ssl.truststore.location")
        if _store_type(checked, "ssl.truststore.type", location) != "PEM":
            reason = "librdkafka reads trusted certificates from PEM files only"
            raise checked.invalid("ssl.truststore.location", reason, _TO_PEM)
        settings["ssl.ca.location"] = location
    if "ssl.keystore.location" in checked:
        settings |= _key_store(checked)
    if "ssl.endpoint.identification.algorithm" in checked:
        name = checked.text("ssl.endpoint.identification.algorithm")
        settings["ssl.endpoint.identification.algorithm"] = name or "none"
    if "sasl.jaas.config" in checked:
        settings |= _login(checked)
    if "sasl.oauthbearer.token.endpoint.url" in checked:
        settings["sasl.oauthbearer.token.endpoint.url"] = checked.text("sasl.oauthbearer.token.endpoint.url")
        settings["sasl.oauthbearer.method"] = "oidc"
    return settings


def _key_store(checked: Checked) -> dict[str, Value]:
    location = checked.text("ssl.keystore.location")
    kind = _store_type(checked, "ssl.keystore.type", location)
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind != "PKCS12":
        reason = "librdkafka cannot read Java key stores (JKS)"
        raise checked.invalid("ssl.keystore.location", reason, _TO_PEM)
    settings: dict[str, Value] = {"ssl.keystore.location": location}
    if "ssl.keystore.password" in checked:
        settings["ssl.keystore.password"] = checked.text("ssl.keystore.password")
    return settings


def _store_type(checked: Checked, name: str, location: str) -> str:
    by_suffix = _TYPE_BY_SUFFIX.get(PurePath(location).suffix.lower(), "JKS")
    return checked.text(name).upper() if name in checked else by_suffix


def _login(checked: Checked) -> dict[str, Value]:
    fix = "set sasl.username and sasl.password instead"
    try:
        login = parse_jaas(Secret(checked.text("sasl.jaas.config")))
    except ValueError as error:
        raise checked.invalid("sasl.jaas.config", str(error), fix) from None
    if login.module not in _PASSWORD_LOGINS:
        raise checked.invalid("sasl.jaas.config", f"the login {login.module} exists in Java only", fix)
    if not {"username", "password"} <= login.options.keys():
        raise checked.invalid("sasl.jaas.config", "it lacks username or password", fix)
    return {
        "sasl.username": login.options["username"].reveal(),
        "sasl.password": login.options["password"].reveal(),
    }
