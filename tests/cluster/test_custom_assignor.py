"""The assignor of docs/groups.md, installed with the broker, and an assignor that fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.support.checks.group_checks")

from ruslo.testing import EmbeddedBroker  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.checks.group_checks import member, new_group, poll_until, until  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "groups.md"
MOODY = '''

class Moody(ActiveStandby):
    """Fails as soon as there are two members."""

    def assign(self, group):
        if len(group.members) > 1:
            raise LookupError("cannot make up my mind")
        return super().assign(group)
'''


def block(language: str) -> str:
    """The first code block of that language on the page."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A broker with the package of the page on its path, and one more assignor."""
    packages = tmp_path_factory.mktemp("packages")
    (packages / "my_assignors.py").write_text(block("python") + MOODY)
    info = packages / "my_assignors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-assignors\nVersion: 1.0\n")
    target = re.search(r'^active-standby = "(.*)"$', block("toml"), re.MULTILINE)
    assert target is not None
    assert '"ruslo.assignors"' in block("toml")
    (info / "entry_points.txt").write_text(
        f"[ruslo.assignors]\nactive-standby = {target[1]}\nmoody = my_assignors:Moody\n"
    )
    settings = {
        "group.consumer.assignors": "uniform,active-standby,moody",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(packages), prepend=":")
        with EmbeddedBroker(settings) as broker:
            yield Cli(broker.bootstrap)


def test_the_assignor_of_the_page_keeps_a_standby(cli: Cli) -> None:
    group, topic = new_group(), cli.new_topic("-p", "3")
    with ExitStack() as stack:
        active, standby = (
            stack.enter_context(
                member(
                    cli,
                    group,
                    [topic],
                    "consumer",
                    {"client.id": name, "group.remote.assignor": "active-standby"},
                )
            )
            for name in ("a", "b")
        )
        poll_until([active, standby], lambda: len(active.assignment()) == 3)
        found = until(
            cli,
            ["group", "members", group],
            lambda response: response["member_count"] == 2 and response["state"] == "Stable",
        )
        assert found["assignor"] == "active-standby"
        assert {info["client_id"]: info["assignment"] for info in found["members"]} == {
            "a": {topic: [0, 1, 2]},
            "b": {},
        }
        active.unsubscribe()
        poll_until([active, standby], lambda: len(standby.assignment()) == 3)


def test_a_failing_assignor_is_shown_and_the_members_keep_what_they_have(cli: Cli) -> None:
    group, topic = new_group(), cli.new_topic("-p", "3")
    settings = {"group.remote.assignor": "moody"}
    with member(cli, group, [topic], "consumer", settings) as first:
        poll_until([first], lambda: len(first.assignment()) == 3)
        (described,) = cli.json("group", "describe", group)
        assert described["assignor_error"] is None
        with member(cli, group, [topic], "consumer", settings) as second:
            (described,) = until(
                cli, ["group", "describe", group], lambda response: response[0]["assignor_error"] is not None
            )
            assert "moody" in described["assignor_error"]
            assert "LookupError: cannot make up my mind" in described["assignor_error"]
            assert described["member_count"] == 2
            assert "Assignor error:  " in cli.ok("group", "describe", group)
            poll_until([first, second], lambda: len(first.assignment()) == 3)
            assert second.assignment() == []
        (described,) = until(
            cli, ["group", "describe", group], lambda response: response[0]["assignor_error"] is None
        )
        assert described["member_count"] == 1
