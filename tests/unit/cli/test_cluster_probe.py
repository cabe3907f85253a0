"""``ruslo cluster health`` with clusters that are well, and that are not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from ruslo.cli.cluster_probe import Health, look
from ruslo.cli.main import cli
from ruslo.cli.partition_health import Risk
from ruslo.client.admin import Admin
from ruslo.client.topics import NewTopic
from ruslo.model.errors import KafkaError
from ruslo.testing import EmbeddedBroker
from tests.support.live_cluster import live_cluster
from tests.support.live_node import run
from tests.support.wire import free_port


async def seen(admin: Admin, condition: Callable[[Health], bool]) -> Health:
    """The first look for which it holds."""
    while True:
        found = await look(admin, Risk.UNDER_REPLICATED)
        if condition(found):
            return found
        await asyncio.sleep(0.05)


def test_a_cluster_loses_a_broker_and_gets_it_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            live_cluster(tmp_path, ("broker,controller",) * 3) as cluster,
            Admin(cluster.nodes[1].bootstrap) as admin,
        ):
            topics = [NewTopic("pair", assignments={0: [1, 2]}), NewTopic("alone", assignments={0: [2]})]
            for created in (await admin.topics.create(topics)).values():
                assert not isinstance(created, KafkaError), created
            await seen(admin, lambda found: found.healthy)
            await cluster.stop(2)
            found = await seen(admin, lambda found: found.at_risk["at-min-isr"] > 0)
            assert found.problems == ["1 partition offline", "1 partition at-min-isr", "fenced: broker 2"]
            assert found.fenced_brokers == [2]
            only_worst = await look(admin, Risk.OFFLINE)
            assert only_worst.problems == ["1 partition offline", "fenced: broker 2"]
            await cluster.start(2)
            await seen(admin, lambda found: found.healthy)

    run(story(), timeout_s=60)


def test_the_command_says_a_sentence_or_json_and_exits_accordingly() -> None:
    with EmbeddedBroker() as broker:
        well = CliRunner().invoke(cli, ["cluster", "health", "-b", broker.bootstrap])
        assert (well.exit_code, well.output) == (0, "Healthy: 1 broker, 0 partitions, controller 1.\n")
        as_json = CliRunner().invoke(cli, ["cluster", "health", "-b", broker.bootstrap, "-o", "json"])
        told = json.loads(as_json.output)
        assert (told["healthy"], told["problems"], told["controller"]) == (True, [], 1)
        assert told["at_risk"] == {"offline": 0, "under-min-isr": 0, "at-min-isr": 0, "under-replicated": 0}


def test_nobody_there_is_not_healthy_and_waiting_ends() -> None:
    alone = ["cluster", "health", "-b", f"127.0.0.1:{free_port()}"]
    for arguments in (alone, [*alone, "--wait", "0.2"]):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 1
        assert not result.stdout


def test_the_sentence_names_what_is_wrong() -> None:
    sick = Health(["there is no active controller", "2 partitions offline"], None, 3, [], 9, {}, 0)
    assert sick.sentence == "Not healthy: there is no active controller; 2 partitions offline."
