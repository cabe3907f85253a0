"""Settings of TLS."""

from __future__ import annotations

from ruslo.client.settings.setting import IGNORED, REFUSED, SAME, TRANSLATED, setting
from ruslo.config.definition import CLASS, LIST, PASSWORD, STRING
from ruslo.config.validators import Items, OneOf

# fmt: off
TLS_KEYS = (
    setting("security.protocol", STRING, "PLAINTEXT", OneOf("SASL_SSL", "PLAINTEXT", "SSL",
        "SASL_PLAINTEXT", ignore_case=True), SAME,
        "Plain text or TLS, with SASL or without."),
    setting("security.providers", STRING, None, None, IGNORED,
        "TLS is implemented by OpenSSL, not by a Java provider."),
    setting("ssl.cipher.suites", LIST, (), Items(), SAME,
        "Cipher suites, by OpenSSL's names."),
    setting("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), Items(), IGNORED,
        "OpenSSL negotiates the newest version that both sides support."),
    setting("ssl.endpoint.identification.algorithm", STRING, "https", None, TRANSLATED,
        "https verifies the broker's host name; empty does not."),
    setting("ssl.engine.factory.class", CLASS, None, None, REFUSED,
        "set the ssl.* settings; TLS is implemented by OpenSSL."),
    setting("ssl.key.password", PASSWORD, None, None, SAME,
        "The password of the private key."),
    setting("ssl.keymanager.algorithm", STRING, "SunX509", None, IGNORED,
        "TLS is implemented by OpenSSL, not by Java."),
    setting("ssl.keystore.certificate.chain", PASSWORD, None, None, TRANSLATED, "ssl.certificate.pem",
        "The client's certificate, as PEM text."),
    setting("ssl.keystore.key", PASSWORD, None, None, TRANSLATED, "ssl.key.pem",
        "The client's private key, as PEM text."),
    setting("ssl.keystore.location", STRING, None, None, TRANSLATED,
        "PEM or PKCS12; a JKS file must be converted."),
    setting("ssl.keystore.password", PASSWORD, None, None, TRANSLATED,
        "The password of a PKCS12 file."),
    setting("ssl.keystore.type", STRING, "JKS", None, TRANSLATED,
        "PEM or PKCS12; without it the file's suffix decides."),
    setting("ssl.protocol", STRING, "TLSv1.3", None, IGNORED,
        "OpenSSL negotiates the newest version that both sides support."),
    setting("ssl.provider", STRING, None, None, IGNORED,
        "TLS is implemented by OpenSSL, not by a Java provider."),
    setting("ssl.secure.random.implementation", STRING, None, None, IGNORED,
        "TLS is implemented by OpenSSL, not by Java."),
    setting("ssl.trustmanager.algorithm", STRING, "PKIX", None, IGNORED,
        "TLS is implemented by OpenSSL, not by Java."),
    setting("ssl.truststore.certificates", PASSWORD, None, None, TRANSLATED, "ssl.ca.pem",
        "Trusted certificates, as PEM text."),
    setting("ssl.truststore.location", STRING, None, None, TRANSLATED,
        "A PEM file; JKS and PKCS12 must be converted."),
    setting("ssl.truststore.password", PASSWORD, None, None, IGNORED,
        "PEM files of certificates have no password."),
    setting("ssl.truststore.type", STRING, "JKS", None, TRANSLATED,
        "PEM; without it the file's suffix decides."),
)
