"""``ruslo cluster health``: its sentence, its JSON and its exit codes."""

from __future__ import annotations

import json

from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.testing import EmbeddedBroker
from tests.support.network.ports import free_port


def test_sentence_json_and_exit_code() -> None:
    with EmbeddedBroker() as broker:
        well = CliRunner().invoke(cli, ["cluster", "health", "-b", broker.bootstrap])
        assert (well.exit_code, well.output) == (0, "Healthy: 1 broker, 0 partitions, controller 1.\n")
        as_json = CliRunner().invoke(cli, ["cluster", "health", "-b", broker.bootstrap, "-o", "json"])
        result = json.loads(as_json.output)
        assert (result["healthy"], result["problems"], result["controller"]) == (True, [], 1)
        assert result["at_risk"] == {"offline": 0, "under-min-isr": 0, "at-min-isr": 0, "under-replicated": 0}


def test_an_unreachable_cluster_is_unhealthy_and_waiting_ends() -> None:
    alone = ["cluster", "health", "-b", f"127.0.0.1:{free_port()}"]
    for arguments in (alone, [*alone, "--wait", "0.2"]):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 1
        assert not result.stdout
