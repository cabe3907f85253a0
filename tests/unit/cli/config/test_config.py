from __future__ import annotations

from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.config.log_config import TOPIC
from ruslo.testing import EmbeddedBroker


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
