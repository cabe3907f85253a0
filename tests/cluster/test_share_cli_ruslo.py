"""The commands of share groups and streams groups with a Ruslo broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite(
    *(f"tests.support.checks.{name}_checks" for name in ("group", "share", "streams"))
)

from ruslo.testing import EmbeddedBroker  # noqa: E402
from ruslo.testing.ports import reserve_ports  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.checks.group_checks import until  # noqa: E402
from tests.support.checks.share_checks import ShareChecks, joined, new_queue  # noqa: E402
from tests.support.checks.streams_checks import STREAMS_NODE_PROPERTIES, StreamsChecks  # noqa: E402
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES  # noqa: E402
from tests.support.share.share_node import SHARE_NODE_PROPERTIES  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    (port,) = reserve_ports(1)
    properties = {
        **GROUP_NODE_PROPERTIES,
        **SHARE_NODE_PROPERTIES,
        **STREAMS_NODE_PROPERTIES,
        "ruslo.metrics.listener": f"127.0.0.1:{port}",
    }
    with EmbeddedBroker(properties) as broker:
        yield broker.bootstrap


class TestShareGroupsWithRuslo(ShareChecks):
    def test_what_consumers_hold_comes_from_the_metrics(self, cli: Cli) -> None:
        queue = new_queue(cli)
        with joined(cli, queue) as member:
            held = member.poll(30)
            assert len(held) == 2
            (view,) = until(cli, ["share", "describe", queue.group], lambda views: views[0]["in_flight"] == 2)
            (row,) = view["partitions"]
            assert (row["in_flight"], row["locked"], row["deliveries_max"]) == (2, 2, 1)
            assert row["oldest_lock_s"] >= 0
            for record in held:
                record.release()
            member.commit()
            (view,) = cli.json("share", "describe", queue.group)
            assert (view["partitions"][0]["locked"], view["partitions"][0]["oldest_lock_s"]) == (0, None)

    def test_a_rejected_record_is_replayed_once(self, cli: Cli) -> None:
        queue = new_queue(cli)
        letters = f"dlq.{queue.group}"
        cli.ok("topic", "create", letters, "-c", "errors.deadletterqueue.group.enable=true")
        cli.ok("config", "set", "--group", queue.group, f"errors.deadletterqueue.topic.name={letters}")
        with joined(cli, queue) as member:
            held = member.poll(30)
            for record in held:
                record.reject()
            member.commit()
            replay = ["share", "replay", queue.group]
            until(cli, [*replay, "--dry-run"], lambda result: result["replayed"] == {queue.topic: len(held)})
            assert cli.json(*replay)["replayed"] == {queue.topic: len(held)}
            assert cli.json(*replay)["replayed"] == {}


class TestStreamsGroupsWithRuslo(StreamsChecks):
    pass
