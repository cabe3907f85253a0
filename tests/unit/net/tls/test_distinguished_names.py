"""Distinguished names as Java prints them. The expected texts were printed by Java 17."""

from __future__ import annotations

import pytest
from cryptography.x509 import Name, NameAttribute, RelativeDistinguishedName
from cryptography.x509.oid import NameOID

from ruslo.net.tls.distinguished_names import format_name

JAVA = [
    (
        [
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.ORGANIZATION_NAME, "Exa, mple"),
            (NameOID.COMMON_NAME, "alice"),
        ],
        "CN=alice,O=Exa\\, mple,C=DE",
    ),
    (
        [(NameOID.COMMON_NAME, ' lead#=+<>;\\"trail '), (NameOID.EMAIL_ADDRESS, "a@b.c")],
        '1.2.840.113549.1.9.1=#16056140622e63,CN=\\ lead\\#\\=\\+\\<\\>\\;\\\\\\"trail\\ ',
    ),
    (
        [(NameOID.USER_ID, "u"), (NameOID.SERIAL_NUMBER, "12"), (NameOID.STREET_ADDRESS, "s=1")],
        "STREET=s\\=1,2.5.4.5=#13023132,UID=u",
    ),
    ([(NameOID.COMMON_NAME, "Jürgen 李"), (NameOID.STATE_OR_PROVINCE_NAME, "x  y")], "ST=x  y,CN=Jürgen 李"),
    ([(NameOID.COMMON_NAME, " ")], "CN=\\ "),
]


@pytest.mark.parametrize(("attributes", "expected"), JAVA)
def test_names_are_written_as_in_java(attributes: list[tuple[object, str]], expected: str) -> None:
    name = Name([NameAttribute(oid, value) for oid, value in attributes])  # type: ignore[arg-type]
    assert format_name(name.public_bytes()) == expected


def test_several_attributes_in_one_part() -> None:
    both = RelativeDistinguishedName(
        [NameAttribute(NameOID.COMMON_NAME, "#x"), NameAttribute(NameOID.DOMAIN_COMPONENT, "org")]
    )
    assert format_name(Name([both]).public_bytes()) == "CN=\\#x+DC=org"


def test_a_long_name() -> None:
    name = Name([NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "x" * 60) for _ in range(8)])
    assert format_name(name.public_bytes()) == ",".join([f"OU={'x' * 60}"] * 8)
