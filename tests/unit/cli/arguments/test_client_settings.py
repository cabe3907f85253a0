from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.arguments.client_settings import is_secret
from ruslo.cli.main import cli
from ruslo.client.settings.sasl_keys import SASL_KEYS
from ruslo.client.settings.tls_keys import TLS_KEYS
from ruslo.config.definition import PASSWORD

SECRET = "s3cret"
LOGIN = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=ann"]


def topic_list(*arguments: str, **environment: str) -> Result:
    """Nothing listens at the address, so the settings are right if the connection fails."""
    environment = {"RUSLO_BOOTSTRAP": "127.0.0.1:1", "RUSLO_PROFILE": "", **environment}
    return CliRunner().invoke(cli, ["topic", "list", *arguments], env=environment)


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.password", "sasl.jaas.config", "sasl.oauthbearer.client.secret"]
)
def test_a_secret_in_an_argument_is_refused_with_the_fix(name: str) -> None:
    result = topic_list("-X", f"{name}={SECRET}")
    assert result.exit_code == 2
    assert f"{name}=@FILE" in " ".join(result.stderr.split())
    assert SECRET not in result.output


def test_a_secret_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET)
    for reference in (f"@{tmp_path / 'password'}", "env:PASSWORD_OF_ANN"):
        result = topic_list(*LOGIN, "-X", f"sasl.password={reference}", PASSWORD_OF_ANN=SECRET)
        assert "cannot connect to 127.0.0.1:1" in result.stderr
    for reference, problem in ((f"@{tmp_path / 'none'}", "No such file"), ("env:NONE", "is not set")):
        result = topic_list(*LOGIN, "-X", f"sasl.password={reference}")
        assert (result.exit_code, problem in " ".join(result.stderr.split())) == (2, True)


def test_a_prompt_needs_a_terminal() -> None:
    result = topic_list(*LOGIN, "-X", "sasl.password=prompt")
    assert result.exit_code == 2
    assert "stdin is not a terminal" in " ".join(result.stderr.split())


def test_a_command_config_holds_secrets_and_the_address(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=127.0.0.1:2\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.username=ann\nsasl.password={SECRET}\n"
    )
    assert "cannot connect to 127.0.0.1:2" in topic_list("--command-config", str(path)).stderr
    assert "127.0.0.1:3" in topic_list("--command-config", str(path), "-b", "127.0.0.1:3").stderr


def test_a_setting_that_cannot_be_honoured_is_refused() -> None:
    result = topic_list("-X", "security.protocol=SSL", "-X", "ssl.engine.factory.class=com.example.Factory")
    assert result.exit_code == 1
    assert "it names a Java class" in result.stderr


def test_all_secrets_of_kafka_are_known() -> None:
    certificates = {"ssl.truststore.certificates", "ssl.keystore.certificate.chain"}
    passwords = {each.key.name for each in (*TLS_KEYS, *SASL_KEYS) if each.key.type is PASSWORD}
    assert {name for name in passwords if not is_secret(name)} <= certificates
    others = {each.key.name for each in (*TLS_KEYS, *SASL_KEYS)} - passwords
    assert [name for name in others if is_secret(name)] == []
