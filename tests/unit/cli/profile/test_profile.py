from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.arguments.profiles import ProfileStore
from ruslo.cli.main import cli


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RUSLO_BOOTSTRAP", raising=False)
    return tmp_path / "ruslo"


def ruslo(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, arguments, env=environment)


def address_of(*arguments: str, **environment: str) -> str:
    """The address that a command tried to connect to; nothing listens there."""
    result = ruslo(*arguments, **environment)
    assert result.exit_code == 1
    return result.output.partition("cannot connect to ")[2].partition(" ")[0]


def test_the_first_profile_is_in_use() -> None:
    assert ruslo("profile", "create", "one", "-b", "127.0.0.1:1").output == "created one (in use)\n"
    assert ruslo("profile", "create", "two", "-b", "127.0.0.1:2").output == "created two\n"
    listed = json.loads(ruslo("profile", "list", "-o", "json").output)
    assert [(each["name"], each["in_use"]) for each in listed] == [("one", True), ("two", False)]
    assert ruslo("profile", "use", "two").output == "using two at 127.0.0.1:2\n"
    assert ruslo("profile", "delete", "two", "--yes").exit_code == 0
    assert ProfileStore().in_use() is None


def test_precedence_of_addresses() -> None:
    assert address_of("topic", "list", RUSLO_BOOTSTRAP="127.0.0.1:9") == "127.0.0.1:9"
    for number in (1, 2, 3):
        ruslo("profile", "create", f"p{number}", "-b", f"127.0.0.1:{number}")
    assert address_of("topic", "list") == "127.0.0.1:1"
    assert address_of("topic", "list", RUSLO_PROFILE="p2") == "127.0.0.1:2"
    assert address_of("--profile", "p3", "topic", "list", RUSLO_PROFILE="p2") == "127.0.0.1:3"
    assert address_of("topic", "list", RUSLO_PROFILE="p2", RUSLO_BOOTSTRAP="127.0.0.1:9") == "127.0.0.1:9"
    assert address_of("--profile", "p3", "topic", "list", RUSLO_BOOTSTRAP="127.0.0.1:9") == "127.0.0.1:3"
    assert address_of("--profile", "p3", "topic", "list", "-b", "127.0.0.1:8") == "127.0.0.1:8"


def test_secrets_are_hidden(home: Path, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    create = ["profile", "create", "safe", "-b", "127.0.0.1:1", "-X", "security.protocol=SASL_PLAINTEXT"]
    login = ["-X", "sasl.username=ann", "-X", "sasl.mechanism=PLAIN"]
    made = ruslo(*create, *login, "-X", f"sasl.password=@{tmp_path / 'password'}")
    assert made.exit_code == 0, made.output
    path = home / "profiles" / "safe.properties"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ProfileStore().read("safe").settings["sasl.password"] == "s3cret"
    for shown in (ruslo("profile", "show").output, ruslo("profile", "show", "-o", "yaml").output):
        assert "s3cret" not in shown
        assert "ann" in shown


def test_a_password_that_a_profile_leaves_out_is_asked_for() -> None:
    create = ["profile", "create", "ask", "-b", "127.0.0.1:1", "-X", "security.protocol=SASL_PLAINTEXT"]
    assert ruslo(*create, "-X", "sasl.username=ann", "-X", "sasl.mechanism=PLAIN").exit_code == 0
    missing = ruslo("topic", "list")
    assert missing.exit_code == 2
    assert "Set RUSLO_SASL_PASSWORD" in missing.stderr
    assert address_of("topic", "list", RUSLO_SASL_PASSWORD="s3cret") == "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "use", "none"], "Unknown profile 'none' (existing profiles: none)"),
        (["profile", "show"], "Choose one with 'ruslo profile use NAME'"),
        (["profile", "create", "../x", "-b", "a:1"], "Invalid profile name"),
        (["profile", "create", "x", "-b", "nowhere"], "is not HOST:PORT"),
        (["profile", "create", "x", "-b", "a:1", "-X", "linger.mss=1"], "Did you mean linger.ms?"),
        (["profile", "create", "x", "-b", "a:1", "-X", "acks=7"], "Use one of all"),
        (["--profile", "none", "topic", "list"], "Create it with 'ruslo profile create none -b HOST:PORT'"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    result = ruslo(*arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert ProfileStore().names() == []


def test_a_profile_is_replaced_only_with_force() -> None:
    ruslo("profile", "create", "x", "-b", "127.0.0.1:1")
    assert "Add --force to replace it" in ruslo("profile", "create", "x", "-b", "127.0.0.1:2").output
    assert ruslo("profile", "create", "x", "-b", "127.0.0.1:2", "--force").exit_code == 0
    assert ProfileStore().read("x").settings == {"bootstrap.servers": "127.0.0.1:2"}


def test_an_invalid_profile_is_reported_with_its_path(home: Path) -> None:
    ruslo("profile", "create", "one", "-b", "127.0.0.1:1")
    broken = home / "profiles" / "two.properties"
    broken.write_text("bootstrap.servers=\\uZZ\n")
    result = ruslo("profile", "list")
    assert result.exit_code == 1
    assert f"{broken}: Invalid property file" in result.stderr
