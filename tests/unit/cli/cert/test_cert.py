from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.model.clock import SystemClock
from ruslo.model.secret import Secret
from ruslo.net.tls.authority_files import write_authority
from ruslo.net.tls.contexts import server_context
from ruslo.net.tls.development_ca import DevelopmentCa
from ruslo.net.tls.key_stores import key_store_pem
from ruslo.net.tls.settings import StoreSettings, TlsSettings

DAY_MS = 86_400_000


class LongAgo(SystemClock):
    def now_ms(self) -> int:
        return 1_600_000_000_000


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """The folder of a CA."""
    assert run("create-ca", str(tmp_path / "certs")).exit_code == 0
    return tmp_path / "certs"


def run(*arguments: str, password: str = "") -> Result:
    return CliRunner().invoke(cli, ["cert", *arguments], env={"RUSLO_PASSWORD": password})


def described(file: Path, password: str = "") -> Any:
    result = run("describe", str(file), "-o", "json", password=password)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_new_ca_has_a_certificate_and_a_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    result = run("create-ca", str(tmp_path / "new"), "--name", "Team CA", "--days", "30", "-o", "json")
    created = json.loads(result.stdout)
    assert created["certificate"] == str(tmp_path / "new/ca.pem")
    assert mode(tmp_path / "new/ca.key") == 0o600
    found = described(tmp_path / "new/ca.pem")
    (certificate,) = found["certificates"]
    assert not found["private_key"]
    assert (certificate["subject"], certificate["usages"]) == ("CN=Team CA", ["CA"])
    assert certificate["expires_at_ms"] == created["expires_at_ms"]
    assert certificate["expires_at_ms"] - certificate["valid_from_ms"] == pytest.approx(30 * DAY_MS, rel=0.01)


def test_an_existing_ca_is_replaced_only_by_force(ca: Path) -> None:
    before = (ca / "ca.pem").read_text()
    refused = run("create-ca", str(ca))
    assert refused.exit_code == 1
    assert "ca.pem already exists" in refused.stderr
    assert "--force" in refused.stderr
    assert (ca / "ca.pem").read_text() == before
    assert run("create-ca", str(ca), "--force").exit_code == 0
    assert (ca / "ca.pem").read_text() != before


def test_a_key_without_its_certificate_counts_as_a_ca(ca: Path) -> None:
    (ca / "ca.pem").unlink()
    assert "ca.key already exists" in run("create-ca", str(ca)).stderr


def test_the_certificate_of_a_broker_works_as_key_store(ca: Path) -> None:
    result = run("issue", "kafka1", "--ca", str(ca), "--host", "kafka1.example.com", "--host", "10.0.0.7")
    assert result.exit_code == 0, result.output
    assert "kafka1.pem for CN=kafka1" in result.stdout
    file = ca / "kafka1.pem"
    assert mode(file) == 0o600
    server_context(TlsSettings(key_store=StoreSettings("PEM", location=str(file))))
    found = described(file)
    leaf, issuer = found["certificates"]
    assert found["private_key"]
    assert leaf["names"] == ["kafka1.example.com", "10.0.0.7"]
    assert leaf["usages"] == ["server", "client"]
    assert leaf["issuer"] == issuer["subject"] == "CN=Ruslo development CA"
    assert not leaf["expired"]


def test_the_certificate_of_a_client_cannot_be_that_of_a_broker(ca: Path) -> None:
    arguments = ("issue", "billing", "--ca", str(ca), "--client", "--organization", "Example", "-o", "json")
    issued = json.loads(run(*arguments).stdout)
    assert issued["usages"] == ["client"]
    assert issued["names"] == []
    assert issued["subject"] == "CN=billing,O=Example"


def test_pkcs12_needs_a_password_to_write_and_to_read(ca: Path, tmp_path: Path) -> None:
    issue = ("issue", "billing", "--ca", str(ca), "--client", "--format", "pkcs12")
    assert run(*issue).exit_code == 2
    (tmp_path / "password").write_text("sesame\n")
    assert run(*issue, "--password-file", str(tmp_path / "password")).exit_code == 0
    file = ca / "billing.p12"
    assert mode(file) == 0o600
    store = StoreSettings("PKCS12", location=str(file), password=Secret("sesame"))
    server_context(TlsSettings(key_store=store))
    assert described(file, "sesame")["certificates"][0]["subject"] == "CN=billing"
    for password, problem in (("", "needs a password"), ("wrong", "the password is wrong")):
        result = run("describe", str(file), password=password)
        assert result.exit_code == 1
        assert problem in result.stderr


def test_an_existing_certificate_is_replaced_only_by_force(ca: Path) -> None:
    issue = ("issue", "kafka1", "--ca", str(ca), "--host", "localhost")
    assert run(*issue).exit_code == 0
    before = (ca / "kafka1.pem").read_text()
    refused = run(*issue)
    assert refused.exit_code == 1
    assert "Add --force" in refused.stderr
    assert (ca / "kafka1.pem").read_text() == before
    (ca / "kafka1.pem").chmod(0o644)
    assert run(*issue, "--force").exit_code == 0
    assert (ca / "kafka1.pem").read_text() != before
    assert mode(ca / "kafka1.pem") == 0o600


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["issue", "kafka1"], "Add --host HOST, or --client"),
        (["issue", "kafka1", "--client", "--host", "a"], "Remove --host or --client"),
        (["issue", "kafka1", "--host", "a.example.com:9092"], "without a port"),
        (["issue", "kafka1", "--host", "naïve.example.com"], "is not a host name"),
        (["issue", "../kafka1", "--client"], "cannot name a certificate"),
        (["issue", "ca", "--client"], "cannot name a certificate"),
        (["issue", "kafka1", "--client", "--password-file", __file__], "A PEM file has no password"),
        (["issue", "kafka1", "--client", "--organization", ""], "Use 1 to 64 characters"),
        (["create-ca", "--name", "x" * 100, "elsewhere"], "cannot be the name of a CA"),
        (["describe", "no-such-file"], "does not exist"),
    ],
)
def test_wrong_usage_exits_with_2(
    ca: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.chdir(ca)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())
    assert sorted(path.name for path in ca.iterdir()) == ["ca.key", "ca.pem"]


def test_a_folder_without_a_usable_ca_is_explained(ca: Path, tmp_path: Path) -> None:
    issue = ("issue", "x", "--client", "--ca", str(ca))
    key = (ca / "ca.key").read_text()
    (ca / "ca.key").write_text(DevelopmentCa.new().key.reveal())
    assert "is not the key of" in run(*issue).stderr
    (ca / "ca.key").write_text("nonsense")
    assert "cannot be read" in run(*issue).stderr
    (ca / "ca.key").write_text(key)
    (ca / "ca.pem").unlink()
    result = run(*issue)
    assert result.exit_code == 1
    assert f"ruslo cert create-ca {ca}" in result.stderr


def test_an_expired_certificate_is_described_with_exit_code_1(tmp_path: Path) -> None:
    old = DevelopmentCa.new(clock=LongAgo(), days=30)
    (tmp_path / "old.pem").write_text(key_store_pem(old.issue("old")))
    result = run("describe", str(tmp_path / "old.pem"))
    assert result.exit_code == 1
    assert "Valid until:  2020-10-1" in result.stdout
    assert "The certificate of CN=old expired on 2020-10-1" in result.stderr


def test_an_expired_ca_issues_nothing(tmp_path: Path) -> None:
    write_authority(tmp_path, DevelopmentCa.new(clock=LongAgo(), days=30))
    result = run("issue", "x", "--client", "--ca", str(tmp_path))
    assert result.exit_code == 1
    assert "expired on 2020" in result.stderr
    assert not (tmp_path / "x.pem").exists()


def test_der_is_read_and_other_files_are_refused(ca: Path, tmp_path: Path) -> None:
    der = tmp_path / "ca.cer"
    der.write_bytes(ssl.PEM_cert_to_DER_cert((ca / "ca.pem").read_text()))
    assert described(der)["certificates"] == described(ca / "ca.pem")["certificates"]
    for content in ("", "text", (ca / "ca.key").read_text()):
        (tmp_path / "other").write_text(content)
        result = run("describe", str(tmp_path / "other"))
        assert result.exit_code == 1
        assert "contains no certificate that can be read" in result.stderr
