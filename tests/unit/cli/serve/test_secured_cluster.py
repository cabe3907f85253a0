from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from ruslo.cli.serve.client_help import file_lines, files_as_json, terminal_help
from ruslo.cli.serve.secured_cluster import SecuredCluster, check_data_folder
from ruslo.client.settings.channel_security import channel_security
from ruslo.config.properties import parse_properties
from ruslo.model.errors import ConfigError
from ruslo.pipeline.client_properties import parse_client_properties

BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093"
USERS = ("admin", "alice")


@pytest.fixture
def secured(tmp_path: Path) -> SecuredCluster:
    return started(tmp_path, BOOTSTRAP)


def started(folder: Path, bootstrap: str) -> SecuredCluster:
    secured = SecuredCluster(folder)
    secured.write_client_files(bootstrap)
    return secured


def test_only_the_owner_reads_what_holds_a_secret(secured: SecuredCluster) -> None:
    assert stat.S_IMODE(secured.folder.stat().st_mode) == 0o700
    secured.write_console_file()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in secured.folder.iterdir()}
    del modes["ca.pem"]
    assert len(modes) == 8
    assert set(modes.values()) == {0o600}


def test_the_files_of_a_client_hold_all_its_settings(secured: SecuredCluster) -> None:
    for user in USERS:
        files = secured.files_of(user)
        java = parse_properties(files.java.read_text())
        assert java["bootstrap.servers"] == BOOTSTRAP
        login = channel_security(java).login
        assert login is not None
        librdkafka = dict(line.split("=", 1) for line in files.librdkafka.read_text().splitlines())
        assert librdkafka["sasl.username"] == user
        assert librdkafka["sasl.password"] == secured.password(user).reveal()
        assert librdkafka["bootstrap.servers"] == BOOTSTRAP


def test_a_restart_keeps_the_authority_and_the_passwords(secured: SecuredCluster, tmp_path: Path) -> None:
    authority, certificate = secured.ca_file.read_text(), (secured.folder / "broker.pem").read_text()
    again = started(tmp_path, "127.0.0.1:19092")
    assert again.ca_file.read_text() == authority
    assert [again.password(user) for user in USERS] == [secured.password(user) for user in USERS]
    # The certificate of the brokers cannot expire in a folder that is used for years.
    assert (again.folder / "broker.pem").read_text() != certificate
    assert "bootstrap.servers=127.0.0.1:19092\n" in again.files_of("alice").java.read_text()


def test_a_damaged_folder_is_explained(secured: SecuredCluster, tmp_path: Path) -> None:
    file = secured.folder / "secrets.properties"
    file.write_text(file.read_text().replace("password.alice", "password.bob"))
    with pytest.raises(ConfigError, match=r"secrets\.properties has no password\.alice"):
        SecuredCluster(tmp_path)


def test_an_open_cluster_does_not_become_secured(tmp_path: Path) -> None:
    check_data_folder(tmp_path, secure=True, brokers=1)
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1/meta.properties").write_text("")
    check_data_folder(tmp_path, secure=False, brokers=1)
    with pytest.raises(ConfigError, match="without users and ACLs"):
        check_data_folder(tmp_path, secure=True, brokers=1)


def test_a_secured_cluster_does_not_become_open(secured: SecuredCluster, tmp_path: Path) -> None:
    check_data_folder(tmp_path, secure=True, brokers=1)
    with pytest.raises(ConfigError, match="Add --secure"):
        check_data_folder(tmp_path, secure=False, brokers=1)


def test_only_the_help_on_a_terminal_shows_passwords(secured: SecuredCluster) -> None:
    passwords = [secured.password(user).reveal() for user in USERS]
    printed = "\n".join(file_lines(secured)) + json.dumps(files_as_json(secured))
    shown = terminal_help(secured, BOOTSTRAP)
    for password in passwords:
        assert password not in printed
        assert password in shown
    for user in USERS:
        assert f"client.properties.{user}={secured.files_of(user).java}" in printed


def test_the_printed_options_of_spark_are_complete(secured: SecuredCluster) -> None:
    options = re.findall(r'\.option\("kafka\.(.+?)", "(.+)"\)', terminal_help(secured, BOOTSTRAP))
    client = parse_client_properties(dict(options))
    assert client.bootstrap == BOOTSTRAP
    assert secured.password("alice").reveal() in dict(client.security)["sasl.jaas.config"].reveal()


def test_a_cluster_keeps_its_number_of_brokers(tmp_path: Path) -> None:
    for node in ("node-1", "node-2", "node-3"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "meta.properties").touch()
    check_data_folder(tmp_path, secure=False, brokers=3)
    with pytest.raises(ConfigError, match="holds a cluster with --brokers 3"):
        check_data_folder(tmp_path, secure=False, brokers=1)
