"""Features compared with Apache Kafka: its tables, its tool, and the decisions of its controller."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.support.checks.cli_checks")

from ruslo.broker.node.bootstrap_features import initial_features  # noqa: E402
from ruslo.machines.controller.feature_levels import LEVELS  # noqa: E402
from ruslo.machines.controller.records import METADATA_VERSION_NAMES  # noqa: E402
from tests.support.brokers.kafka import ApacheKafka  # noqa: E402
from tests.support.brokers.node import Node  # noqa: E402
from tests.support.brokers.ruslo import RusloNode  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.tools.java_tools import run_tool, tool_output  # noqa: E402

pytestmark = pytest.mark.usefixtures("needs_java")

TOOL = "org.apache.kafka.tools.FeatureCommand"
ELR = "eligible.leader.replicas.version"
NO_CLUSTER = Cli("127.0.0.1:1")


def test_new_cluster_finalizes_the_same_features_as_apache_kafka() -> None:
    for release in ("3.9", "4.0", "4.1", "4.2", "4.3"):
        mapping = tool_output("kafka.tools.StorageTool", "version-mapping", "--release-version", release)
        levels = dict(line.split(" ")[0].split("=") for line in mapping.splitlines() if "=" in line)
        del levels["kraft.version"]  # kraft.version depends on how the voters are configured.
        ours = initial_features(release, (), dynamic_quorum=True)
        assert {name: int(level) for name, level in levels.items()} == ours, release


def test_version_mapping_is_that_of_kafkas_tool() -> None:
    for release in METADATA_VERSION_NAMES.values():
        text = tool_output(TOOL, "version-mapping", "--release-version", release)
        theirs = {name: int(level) for name, level in re.findall(r"^([\w.]+)=(\d+)", text, re.MULTILINE)}
        ours = NO_CLUSTER.json("cluster", "features", "version-mapping", "--release-version", release)
        assert list(ours.items()) == list(theirs.items()), release


def test_dependencies_are_those_of_kafkas_tool() -> None:
    for name, levels in LEVELS.items():
        for level in range(levels[-1].level + 1):
            feature = f"{name}={level}"
            text = tool_output(TOOL, "feature-dependencies", "--feature", feature)
            theirs = {
                other: int(least) for other, least in re.findall(r"^ +([\w.]+)=(\d+)", text, re.MULTILINE)
            }
            (ours,) = NO_CLUSTER.json("cluster", "features", "feature-dependencies", "--feature", feature)
            assert ours == {"feature": name, "level": level, "needs": theirs}


@pytest.fixture(params=[RusloNode, ApacheKafka])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    system: type[Node] = request.param
    with system(tmp_path).start() as node:
        yield node


def test_the_command_and_kafkas_tool_see_the_same(node: Node) -> None:
    cli = Cli(node.bootstrap)
    text = tool_output(TOOL, "--bootstrap-server", node.bootstrap, "describe")
    theirs = {
        name: (low, high, finalized)
        for name, low, high, finalized in re.findall(
            r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+"
            r"FinalizedVersionLevel: (\S+)",
            text,
        )
    }

    def shown(name: str, level: int) -> str:
        return METADATA_VERSION_NAMES[level] if name == "metadata.version" else str(level)

    described = cli.json("cluster", "features", "describe", "--node-id", str(node.node_id))
    assert described["epoch"] > 0
    assert theirs == {
        name: tuple(shown(name, each[key]) for key in ("min", "max", "finalized"))
        for name, each in described["features"].items()
    }


def finalized(cli: Cli) -> dict[str, int]:
    described = cli.json("cluster", "features", "describe")["features"]
    return {name: each["finalized"] for name, each in described.items()}


def wait_for(cli: Cli, expected: dict[str, int]) -> None:
    """Return when the broker has these levels: Apache Kafka responds before the broker knows them."""
    deadline = time.monotonic() + 30
    while (found := finalized(cli)) != expected:
        assert time.monotonic() < deadline, f"{found} instead of {expected}"
        time.sleep(0.05)


def test_the_controller_decides_as_that_of_kafka(node: Node) -> None:
    cli = Cli(node.bootstrap)
    newest = finalized(cli)
    features = ("cluster", "features")
    downgrade = (*features, "downgrade", "--feature")
    for refused in (
        (*features, "upgrade", "--feature", "transaction.version=3"),
        (*features, "upgrade", "--feature", "transaction.version=1"),
        (*features, "upgrade", "--feature", "moon.phase=1"),
        (*features, "downgrade", "--metadata", "4.2"),
        (*features, "downgrade", "--metadata", "4.2", "--unsafe", "--yes"),
        (*features, "downgrade", "--release-version", "4.2"),
        (*downgrade, "transaction.version=2", "--feature", "kraft.version=0"),
        (*downgrade, "share.version=0", "--feature", "transaction.version=7"),
        (*features, "disable", "--feature", "kraft.version"),
    ):
        cli.fails(*refused)
        assert finalized(cli) == newest, refused
    for accepted in (
        (*downgrade, "transaction.version=1", "--dry-run"),
        (*features, "upgrade", "--release-version", "4.3.1"),
        (*features, "disable", "--feature", "streams.version", "--dry-run"),
    ):
        cli.ok(*accepted)
        assert finalized(cli) == newest, accepted
    cli.ok(*downgrade, "transaction.version=1", "--feature", f"{ELR}=0")
    wait_for(cli, newest | {"transaction.version": 1, ELR: 0})
    cli.ok(*features, "disable", "--feature", "transaction.version", "--unsafe", "--yes")
    wait_for(cli, newest | {"transaction.version": 0, ELR: 0})
    # Kafka's tool raises them again.
    arguments = ("--bootstrap-server", node.bootstrap, "upgrade", "--release-version", "4.3")
    assert run_tool(TOOL, *arguments).returncode == 0
    wait_for(cli, newest)


@pytest.mark.parametrize("system", [RusloNode, ApacheKafka])
def test_metadata_goes_down_where_no_record_is_new(tmp_path: Path, system: type[Node]) -> None:
    node = system(tmp_path)
    node.format_options = ("--release-version", "4.2")
    with node.start():
        cli = Cli(node.bootstrap)
        before = finalized(cli)
        assert before["metadata.version"] == 29
        command = ("cluster", "features", "downgrade", "--metadata")
        cli.fails(*command, "4.0-IV0")
        cli.ok(*command, "4.0-IV1")
        wait_for(cli, before | {"metadata.version": 23})
        cli.ok("topic", "create", "after")
        cli.fails("cluster", "features", "downgrade", "--metadata", "3.9")
        cli.ok("cluster", "features", "upgrade", "--release-version", "4.3")
        wait_for(cli, before | {"metadata.version": 30})
