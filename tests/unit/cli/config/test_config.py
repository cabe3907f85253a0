from __future__ import annotations

from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.config.log_config import TOPIC
from ruslo.testing import EmbeddedBroker


def test_levels_of_the_loggers_of_a_broker() -> None:
    with EmbeddedBroker() as broker:

        def ruslo(*arguments: str) -> Result:
            return CliRunner().invoke(cli, arguments, env={"RUSLO_BOOTSTRAP": broker.bootstrap})

        node_id, name = "1", "ruslo.broker.controller"
        changed = ruslo("config", "set", "--broker-logger", node_id, f"{name}=DEBUG")
        assert changed.output == f"changed broker-logger {node_id}: {name} = DEBUG\n"
        described = ruslo("config", "describe", "--broker-logger", node_id, name)
        assert described.output.splitlines()[1].split() == [name, "DEBUG", "dynamic-broker-logger"]
        assert ruslo("config", "unset", "--broker-logger", node_id, name).exit_code == 0
        for arguments, reason in (
            (("set", "--broker-logger", node_id, f"{name}=LOUD"), "'LOUD' is not a level"),
            (("set", "--broker-logger", node_id, f"{name}s=INFO"), f"Did you mean '{name}'?"),
            (("unset", "--broker-logger", node_id, "root"), "root logger cannot be deleted"),
            (("describe", "--broker-logger", node_id, "absent"), "Unknown logger 'absent'"),
            (("set", "--broker-logger", node_id, "--broker", node_id, "root=INFO"), "Choose one resource"),
        ):
            failed = ruslo("config", *arguments)
            assert failed.exit_code != 0
            assert reason in " ".join(failed.output.split()), failed.output


def test_a_config_without_effect_is_reported() -> None:
    inert, value = "remote.storage.enable", "false"
    assert not TOPIC[inert].has_effect
    with EmbeddedBroker() as broker:

        def ruslo(*arguments: str) -> str:
            result = CliRunner().invoke(cli, arguments, env={"RUSLO_BOOTSTRAP": broker.bootstrap})
            assert result.exit_code == 0, result.output
            return result.stderr

        ruslo("topic", "create", "orders")
        sentence = f"{inert} has no effect on a Ruslo broker"
        assert sentence in ruslo(
            "config", "set", "--topic", "orders", f"{inert}={value}", "retention.ms=1000"
        )
        described = ruslo("config", "describe", "--topic", "orders")
        assert sentence in described
        assert "retention.ms has no effect" not in described
