"""Access tokens: signatures, algorithms, claims, and the tokens that attackers forge."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ruslo.model.secret import Secret
from ruslo.net.sasl.access_tokens import ClaimRules, TokenValidator, UnsecuredTokenValidator
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity

NOW_S = 1_800_000_000
RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RULES = ClaimRules(issuer="https://issuer", audiences=("kafka", "other"), clock_skew_s=30)
CLAIMS = {"iss": "https://issuer", "aud": "kafka", "sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600}


def jwk(key: Any, key_id: str) -> jwt.PyJWK:
    algorithm = "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256"
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return jwt.PyJWK({**made, "kid": key_id, "alg": algorithm})


class Keys:
    known = (jwk(RSA_KEY, "rsa"), jwk(EC_KEY, "ec"))

    def find(self, key_id: str | None, algorithm: str) -> Collection[jwt.PyJWK]:
        found = [
            key for key in self.known if key_id in (None, key.key_id) and key.algorithm_name == algorithm
        ]
        if not found:
            raise AuthenticationFailed("no such key")
        return found


def validate(token: str, rules: ClaimRules = RULES) -> Identity:
    return TokenValidator(Keys(), rules, lambda: NOW_S * 1000)(Secret(token))


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str = "rsa", **claims: object) -> str:
    return jwt.encode({**CLAIMS, **claims}, key, algorithm, headers={"kid": kid})


def refused(token: str, rules: ClaimRules = RULES) -> str:
    with pytest.raises(AuthenticationFailed) as failure:
        validate(token, rules)
    return failure.value.reason


def test_a_signed_token_names_its_user_and_expiry() -> None:
    expected = Identity("alice", expires_at_ms=(NOW_S + 600) * 1000)
    assert validate(signed()) == expected
    assert validate(signed(EC_KEY, "ES256", "ec")) == expected


def test_a_token_of_another_key_is_refused() -> None:
    assert "signature" in refused(signed(OTHER_KEY))


def test_a_token_without_signature_is_refused() -> None:
    unsigned = jwt.encode(CLAIMS, None, "none")  # type: ignore[arg-type]
    assert "'none'" in refused(unsigned)
    header, payload, _ = signed().split(".")
    assert refused(f"{header}.{payload}.")


def test_the_public_key_is_not_taken_for_a_shared_secret() -> None:
    """Key confusion: the attacker signs with HMAC, and the provider's public key as the secret."""
    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = _part({"alg": "HS256", "typ": "JWT", "kid": "rsa"})
    payload = _part(CLAIMS)
    import hashlib
    import hmac

    signature = base64.urlsafe_b64encode(
        hmac.digest(public, f"{header}.{payload}".encode(), hashlib.sha256)
    ).rstrip(b"=")
    assert "HS256" in refused(f"{header}.{payload}.{signature.decode()}")


def forged(header: Mapping[str, object]) -> str:
    """A token for admin that the attacker signed, with this header beside alg and kid."""
    payload = json.dumps({**CLAIMS, "sub": "admin"}).encode()
    return jwt.PyJWS().encode(payload, OTHER_KEY, "RS256", headers={"kid": "rsa", **header})


def test_keys_that_a_token_brings_along_are_ignored() -> None:
    """The header may hold a key or say where one is (RFC 7515, 4.1); only keys of the provider count."""
    own = jwt.get_algorithm_by_name("RS256").to_jwk(OTHER_KEY.public_key(), as_dict=True)
    headers: list[Mapping[str, object]] = [
        {"jwk": own},
        {"jku": "http://127.0.0.1:1/keys"},
        {"x5u": "http://127.0.0.1:1/certificate"},
        {"x5c": ["MIIB"]},
        {"jwk": own, "jku": "file:///etc/passwd", "x5t": "x"},
    ]
    for header in headers:
        assert "signature" in refused(forged(header))


@pytest.mark.parametrize(
    "key_id",
    ["../../../dev/null", "/etc/passwd", "rsa\0", "' OR '1'='1", "http://127.0.0.1:1/key", "RSA", " rsa"],
)
def test_a_key_id_is_only_compared(key_id: str) -> None:
    assert refused(forged({"kid": key_id})) == "no such key"


@pytest.mark.parametrize("key_id", [7, ["rsa"], {"kid": "rsa"}, True])
def test_a_key_id_that_is_not_a_text_is_refused(key_id: object) -> None:
    payload = _part({**CLAIMS, "sub": "admin"})
    header = _part({"alg": "RS256", "kid": key_id})
    signature = signed().split(".")[2]
    assert refused(f"{header}.{payload}.{signature}")


@pytest.mark.parametrize(
    "header", [{"crit": ["exp"], "exp": 1}, {"crit": ["unknown"], "unknown": 1}, {"crit": []}]
)
def test_critical_extensions_that_are_unknown_are_refused(header: dict[str, object]) -> None:
    """The signature is right: the extension alone makes the token invalid (RFC 7515, 4.1.11)."""
    payload = json.dumps(CLAIMS).encode()
    token = jwt.PyJWS().encode(payload, RSA_KEY, "RS256", headers={"kid": "rsa", **header})
    assert refused(token)


def test_a_detached_payload_is_refused() -> None:
    token = jwt.PyJWS().encode(
        json.dumps(CLAIMS).encode(),
        RSA_KEY,
        "RS256",
        headers={"kid": "rsa", "b64": False},
        is_payload_detached=True,
    )
    assert refused(token)


def test_a_changed_payload_is_refused() -> None:
    header, _, signature = signed().split(".")
    assert "signature" in refused(f"{header}.{_part({**CLAIMS, 'sub': 'admin'})}.{signature}")


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"iat": NOW_S + 31}, "iat"),
        ({"iat": None}, "iat"),
        ({"nbf": NOW_S + 31}, "nbf"),
        ({"iss": "https://other"}, "issuer"),
        ({"aud": "elsewhere"}, "audience"),
        ({"aud": ["elsewhere"]}, "audience"),
        ({"sub": ""}, "user"),
        ({"sub": 7}, "user"),
        ({"sub": None}, "user"),
    ],
)
def test_claims_are_checked(claims: dict[str, object], reason: str) -> None:
    merged = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    header = {"kid": "rsa"}
    payload = json.dumps(merged).encode()
    token = jwt.PyJWS().encode(payload, RSA_KEY, "RS256", headers=header)
    assert reason in refused(token)


def test_clocks_may_differ_by_the_allowed_skew() -> None:
    assert validate(signed(exp=NOW_S - 29)).user == "alice"
    assert validate(signed(iat=NOW_S + 29)).user == "alice"


def test_scopes_and_claim_names_are_configurable() -> None:
    rules = ClaimRules(
        scope_claim="scp", sub_claim="client", required_scopes=frozenset({"produce", "consume"})
    )
    assert validate(signed(scp="produce consume", client="app"), rules).user == "app"
    assert validate(signed(scp=["produce", "consume"], client="app"), rules).user == "app"
    assert "consume" in refused(signed(scp="produce", client="app"), rules)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "....", "é.é.é", "e30.e30.e30"])
def test_garbage_is_refused(token: str) -> None:
    assert refused(token)


def test_a_deeply_nested_header_is_refused() -> None:
    header = base64.urlsafe_b64encode(b"[" * 100_000).rstrip(b"=").decode()
    assert refused(f"{header}.e30.e30")


def test_unsecured_tokens_need_their_own_validator() -> None:
    accept = UnsecuredTokenValidator(RULES, lambda: NOW_S * 1000)
    unsigned = jwt.encode(CLAIMS, None, "none")  # type: ignore[arg-type]
    assert accept(Secret(unsigned)).user == "alice"
    for token in (
        signed(),
        unsigned.rstrip(".") + ".x",
        "x.y.",
        f"{_part({'alg': 'RS256'})}.{_part(CLAIMS)}.",
    ):
        with pytest.raises(AuthenticationFailed):
            accept(Secret(token))


def _part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
