from __future__ import annotations

import json

from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.testing import EmbeddedBroker


def test_subscriptions_are_set_shown_and_deleted() -> None:
    with EmbeddedBroker() as broker:

        def ruslo(*arguments: str) -> Result:
            env = {"RUSLO_BOOTSTRAP": broker.bootstrap, "RUSLO_PROFILE": ""}
            return CliRunner().invoke(cli, ["client-metrics", *arguments], env=env)

        assert "no client metrics subscriptions" in ruslo("list").stderr
        assert ruslo("set", "s").exit_code == 2
        assert "out of range" in ruslo("set", "s", "--metrics", "*", "--interval-ms", "5").stderr
        created = ruslo("set", "s", "--metrics", "a.", "--metrics", "b.", "--match", "client_id=o.*")
        assert created.output.splitlines() == ["set metrics of s to a.,b.", "set match of s to client_id=o.*"]
        assert ruslo("set", "s", "--interval-ms", "1000").exit_code == 0
        expected = {"name": "s", "metrics": "a.,b.", "interval.ms": "1000", "match": "client_id=o.*"}
        assert json.loads(ruslo("list", "-o", "json").output) == [expected]
        assert "s     a.,b.    1000" in ruslo("describe", "s").output
        absent = ruslo("describe", "t")
        assert absent.exit_code == 1
        assert "does not exist" in absent.stderr
        assert ruslo("delete", "s", "--yes").output == "deleted s\n"
        assert ruslo("delete", "s", "--yes").exit_code == 1
        assert json.loads(ruslo("list", "-o", "json").output) == []
