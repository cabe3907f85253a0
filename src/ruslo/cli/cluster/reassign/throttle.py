"""Replication throttle of moves, with the configs that Kafka's tool uses (KIP-73).

Topic configs list the throttled replicas: the old ones as leaders, the new ones as followers. Broker configs
set the rate of each broker that takes part, and that of copies between its log directories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.topics import TopicPartition

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

_RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
_RATE = re.compile(r"(\d{1,18})\s*([kMGT]?)(i?)B?(?:/s)?\Z", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Move(NamedTuple):
    old: tuple[int, ...]
    new: tuple[int, ...]


def rate_callback(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    match = _RATE.match(value.strip())
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(
            f"Invalid rate {value!r}. Write bytes per second, such as 50MB or 10MiB.", ctx, param
        )
    return int(match[1]) * int((1024 if match[3] else 1000) ** _POWERS[match[2].lower()])


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """The throttle configs of each topic."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, partition), (old, new) in sorted(moves.items()):
        leaders.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in old)
        followers.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in new if broker not in old)
    return {
        topic: {LEADER_REPLICAS: ",".join(leaders[topic]), FOLLOWER_REPLICAS: ",".join(followers[topic])}
        for topic in leaders
        if followers[topic]
    }


async def set_throttle(admin: Admin, moves: Mapping[TopicPartition, Move], rate: int) -> None:
    from ruslo.client.admin.configs import Change, Operation, Resource

    for topic, settings in throttled_replicas(moves).items():
        changes = {key: Change(Operation.SET, value) for key, value in settings.items()}
        await admin.configs.alter(Resource.topic(topic), changes)
    brokers = {
        broker
        for move in moves.values()
        if set(move.new) - set(move.old)
        for broker in (*move.old, *move.new)
    }
    await _set_rates(admin, brokers, rate, LEADER_RATE, FOLLOWER_RATE)


async def set_log_dir_throttle(admin: Admin, brokers: Iterable[int], rate: int) -> None:
    """Limit the rate of copies between the log directories of each broker (KIP-113)."""
    await _set_rates(admin, brokers, rate, LOG_DIR_RATE)


async def _set_rates(admin: Admin, brokers: Iterable[int], rate: int, *keys: str) -> None:
    from ruslo.client.admin.configs import Change, Operation, Resource

    for broker in sorted(set(brokers) & await _alive(admin)):
        changes = {key: Change(Operation.SET, str(rate)) for key in keys}
        await admin.configs.alter(Resource.broker(broker), changes)


async def clear_throttle(admin: Admin, topics: Iterable[str]) -> bool:
    """Remove the throttle from these topics and from all brokers; True if there was one."""
    from ruslo.client.admin.configs import Change, ConfigSource, Operation, Resource

    names = sorted(set(topics))
    found = False
    removed = Change(Operation.DELETE)
    for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS):
        values = await admin.configs.topic_values(names, key)
        for topic in (name for name in names if values.get(name)):
            found = True
            await admin.configs.alter(Resource.topic(topic), {key: removed})
    for broker in sorted(await _alive(admin)):
        entries = await admin.configs.describe(Resource.broker(broker), _RATES)
        keys: Sequence[str] = [each.name for each in entries if each.source == ConfigSource.DYNAMIC_BROKER]
        if keys:
            found = True
            await admin.configs.alter(Resource.broker(broker), dict.fromkeys(keys, removed))
    return found


async def _alive(admin: Admin) -> set[int]:
    """The live brokers: each validates its own configs, so only these can be changed."""
    description = await admin.brokers.describe_cluster()
    return {broker.node.id for broker in description.brokers if not broker.fenced}
