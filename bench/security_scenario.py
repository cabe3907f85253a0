"""What security costs: 1 KB records over TLS, and the latency of a broker that checks ACLs."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from bench.contenders import COMMON_PROPERTIES, new_ceiling, new_ruslo, run_load
from bench.measure import GB, cpu_s, warm_memory
from bench.setting import Figures, Setting, create_topics, delete_topics
from ruslo.client.admin.admin import Admin
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import USERS, secured_node
from tests.support.tools.kafka_jars import BENCH_JAVA_OPTIONS

PARTITIONS = 6
RECORDS = 2_000_000
ROUNDS = 2  # the last one counts
LATENCY_RECORDS = 20_000
LATENCY_ROUNDS = 5
OTHER_ACLS = 1_000


@dataclass(frozen=True)
class Listener:
    """One listener of a secured node, as the target of a load."""

    node: Node
    bootstrap: str
    client: Mapping[str, str]
    """The settings of librdkafka for this listener."""
    address_of: Mapping[str, str]
    """The addresses of all listeners of the node, by security protocol."""

    def log_tail(self, lines: int) -> str:
        return self.node.log_tail(lines)


def tls(setting: Setting) -> Figures:
    """Produce 1 KB records to a new topic, then consume them, all over TLS with the default cipher."""
    figures: Figures = {}
    if setting.new_node is new_ceiling:
        return figures
    with secured(setting, "SSL") as listener:
        for round_number in range(ROUNDS):
            topic = f"load-{round_number}"
            create_topics(listener.node, {topic: PARTITIONS})
            figures |= measured(setting, listener, "produce", topic)
            if round_number < ROUNDS - 1:
                delete_topics(listener.node, [topic])
        for _ in range(ROUNDS):
            figures |= measured(setting, listener, "consume", topic)
    return figures


def measured(setting: Setting, listener: Listener, mode: str, topic: str) -> Figures:
    warm_memory(setting.warm_bytes)
    before_s = cpu_s(listener.node.pid)
    records = RECORDS // setting.divisor
    figures = run_load(setting.program, mode, listener, topic, records, 1024, client=listener.client)
    return {
        f"{mode}_mb_per_s": figures["mb_per_s"],
        f"{mode}_cpu_s_per_gb": (cpu_s(listener.node.pid) - before_s) / (figures["bytes"] / GB),
    }


def acls(setting: Setting) -> Figures:
    """One record at a time by a client whom an ACL among a thousand allows it, and without an authorizer.

    The best of alternating rounds, because one round in which the machine did something else decides a p99.
    """
    if setting.new_node is new_ceiling:
        return {}
    best: dict[str, Figures] = {}
    with (
        secured(setting, "SASL_PLAINTEXT", {}, "checked") as checked,
        secured(setting, "SASL_PLAINTEXT", {"authorizer.class.name": ""}, "unchecked") as unchecked,
    ):
        for listener in (checked, unchecked):
            create_topics(listener.node, {"latency": 1})
        asyncio.run(allow_alice(checked.node))
        for _ in range(LATENCY_ROUNDS):
            for name, listener in (("checked", checked), ("unchecked", unchecked)):
                warm_memory(setting.warm_bytes)
                records = LATENCY_RECORDS // setting.divisor
                figures = run_load(
                    setting.program, "latency", listener, "latency", records, 100, client=listener.client
                )
                known = best.setdefault(name, figures)
                best[name] = {key: min(value, known[key]) for key, value in figures.items()}
    return {
        "acls_p50_ms": best["checked"]["p50_ms"],
        "acls_p99_ms": best["checked"]["p99_ms"],
        "acls_p50_ratio": best["checked"]["p50_ms"] / best["unchecked"]["p50_ms"],
        "acls_p99_ratio": best["checked"]["p99_ms"] / best["unchecked"]["p99_ms"],
    }


async def allow_alice(node: Node) -> None:
    names = ["latency", *(f"other-{number}" for number in range(OTHER_ACLS))]
    allowed = [
        Acl(
            ResourceType.TOPIC,
            name,
            PatternType.LITERAL,
            "User:alice",
            "*",
            Operation.WRITE,
            Permission.ALLOW,
        )
        for name in names
    ]
    async with Admin(node.bootstrap) as admin:
        await admin.acls.create(allowed)


@contextlib.contextmanager
def secured(
    setting: Setting, protocol: str, properties: Mapping[str, str] | None = None, name: str = "secured"
) -> Iterator[Listener]:
    """The listener of this protocol of a started node of the contender."""
    kind: Callable[..., RusloNode | ApacheKafka] = RusloNode
    if setting.new_node is not new_ruslo:
        kind = partial(ApacheKafka, java_options=BENCH_JAVA_OPTIONS)
    folder = setting.folder.with_name(f"{setting.folder.name}-{name}")
    secured = secured_node(kind, folder, {**COMMON_PROPERTIES, **(properties or {})})
    client = {"security.protocol": protocol, "ssl.ca.location": str(folder / "ca.pem")}
    if protocol.startswith("SASL"):
        client |= {
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
        }
    try:
        yield Listener(secured.node.start(), secured.addresses[protocol], client, secured.addresses)
    finally:
        secured.node.kill()
        shutil.rmtree(folder, ignore_errors=True)
