"""Configs compared with Kafka's own classes: the tables, parsing, validation, and DescribeConfigs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from ruslo.client.settings.setting import Setting
from ruslo.client.settings.tables import CONSUMER, PRODUCER
from ruslo.config.alteration import (
    Alteration,
    AlterOp,
    alter_broker_keys,
    alter_group,
    alter_topic,
    replace_broker,
    replace_group,
    replace_topic,
)
from ruslo.config.broker import BrokerConfig
from ruslo.config.definition import REQUIRED, ConfigTable, ConfigType, java_double, parse_as
from ruslo.config.keys.broker import BROKER, BROKER_DYNAMIC_ONLY
from ruslo.config.keys.group import GROUP
from ruslo.config.log_config import TOPIC
from ruslo.config.properties import format_properties, parse_properties
from ruslo.config.resolution import (
    ConfigEntry,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from ruslo.config.validators import OneOf, Range
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from tests.interop.oracle import JavaOracle
from tests.support.brokers.kafka import ApacheKafka
from tests.support.tools.programs import require_tool

COMBINED = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
BROKER_ONLY = {**COMBINED, "process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
CONTROLLER_ONLY = {**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://:9093"}

KAFKA_4_4 = {
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.group.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.name.prefix",
    "group.streams.acceptable.recovery.lag",
    "group.streams.assignors",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.num.warmup.replicas",
    "group.streams.rack.aware.assignment.tags",
    "group.streams.task.offset.interval.ms",
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
    "streams.acceptable.recovery.lag",
    "streams.assignor.name",
    "streams.num.warmup.replicas",
    "streams.rack.aware.assignment.tags",
    "streams.task.offset.interval.ms",
}
"""Properties that Apache Kafka 4.4 added; the oracle is 4.3."""

Row = list[str | None]


class Oracle(JavaOracle):
    """One JVM that evaluates configs."""

    def query(self, *command: str) -> tuple[str, list[Row]]:
        verdict, _, rest = self.exchange(" ".join(command)).partition(" ")
        return verdict, [[_cell(cell) for cell in row.split(",")] for row in rest.split(";")] if rest else []


def _cell(hexadecimal: str) -> str | None:
    return None if hexadecimal == "-" else bytes.fromhex(hexadecimal.removeprefix("=")).decode()


def _hex(text: str) -> str:
    return text.encode().hex()


def _file(properties: Mapping[str, str]) -> str:
    return _hex(format_properties(properties))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("ConfigOracle") as oracle:
        yield oracle


@pytest.mark.parametrize(
    ("resource", "table", "count"),
    [
        ("broker", BROKER, 340),
        ("topic", TOPIC, 33),
        ("group", GROUP, 17),
        ("dynamic-only", BROKER_DYNAMIC_ONLY, 3),
    ],
)
def test_the_tables_are_kafkas(oracle: Oracle, resource: str, table: ConfigTable, count: int) -> None:
    verdict, rows = oracle.query("table", resource)
    assert verdict == "ok"
    assert len(rows) == count
    public = {key.name for key in table if not key.internal and not key.name.startswith("ruslo.")}
    assert public - KAFKA_4_4 == {row[0] for row in rows}
    for name, type_name, default, required, valid, importance, mode in rows:
        assert name is not None
        assert valid is not None
        key = table[name]
        assert key.type.name == type_name, name
        assert key.default_text == default, name
        assert (key.default is REQUIRED) == (required == "true"), name
        assert key.importance.name == importance, name
        if table in (BROKER, BROKER_DYNAMIC_ONLY):
            assert key.dynamic.value == mode, name
        ours = "" if key.validator is None else str(key.validator)
        if isinstance(key.validator, OneOf) and key.validator.ignore_case:
            # Kafka keeps these values in a hash set without a defined order.
            assert set(key.validator.words) == set(valid.partition("[")[2].rstrip("]").split(", ")), name
        else:
            assert ours == valid, name


@pytest.mark.parametrize(("client", "settings"), [("producer", PRODUCER), ("consumer", CONSUMER)])
def test_the_tables_of_clients_are_kafkas(
    oracle: Oracle, client: str, settings: Mapping[str, Setting]
) -> None:
    verdict, rows = oracle.query("table", client)
    assert verdict == "ok"
    assert settings.keys() == {row[0] for row in rows}
    for name, type_name, default, required, valid, _, _ in rows:
        assert name is not None
        key = settings[name].key
        # Kafka prints classes in a list as Java prints a class, not as in a property file.
        written = default and default.replace("class ", "")
        assert (key.type.name, key.default_text) == (type_name, written), name
        assert (key.default is REQUIRED) == (required == "true"), name
        if isinstance(key.validator, OneOf) and valid is not None:
            assert set(key.validator.words) == set(valid.partition("[")[2].rstrip("]").split(", ")), name
        elif isinstance(key.validator, Range):
            assert str(key.validator) == valid, name


PROPERTY_FILES = [
    "a=b\nc:d\ne f\ng   =   h\ni\t:\tj\n",
    "# comment\n! comment\n   # indented comment\n\n   \t\n key = value \n",
    "a=1\\\n    2\\\n  #3\nb=2\n",
    "a=b\\\\\nc=d\\\\\\\n e\n",
    "key\\ with\\ blanks=v\nkey\\=x\\:y=z\nk\\#=v\n",
    'u=\\u00e9\\u0416\\uD83D\\uDE00\nt=\\ta\\nb\\rc\\fd\\q\\"\n',
    "only\n=nokey\n:alsonokey\n==x\na==b\na2 = =b\na3 : = b\n",
    "dup=1\ndup=2\n",
    "cr=1\rcrlf=2\r\nlf=3\n",
    "end=x\\",
    "end\\\n",
    "\\\nnext=line\n",
    "a=\\\n\nb=c\n",
    "a=\\\n# not a comment\nb=c\n",
    "trailing=blank  \t \n",
    "\ufeffbom=1\n",
    "",
    "   ",
    "f\fg=1\n\x0bv=2\n",
    "log.dirs=C:\\\\kafka\\\\logs\n",
    "empty=\nblank=   \n",
    "a\\\n  b = c\\\n  d\n",
]


@pytest.mark.parametrize("text", PROPERTY_FILES)
def test_property_files_are_read_as_in_java(oracle: Oracle, text: str) -> None:
    verdict, rows = oracle.query("properties", _hex(text))
    assert verdict == "ok"
    assert parse_properties(text) == {row[0]: row[1] for row in rows}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzt\n", "ok=1\n\\u123g=2\n"])
def test_property_files_are_rejected_as_in_java(oracle: Oracle, text: str) -> None:
    assert oracle.query("properties", _hex(text))[0] == "refused"
    with pytest.raises(ConfigError, match=r"in line \d"):
        parse_properties(text)


def test_java_reads_property_files_that_we_write(oracle: Oracle) -> None:
    mapping = {
        "plain": "value",
        " key with blanks ": "  value with blanks  ",
        "a=b:c#d!e": "a=b:c#d!e",
        "#start": "\\back\\slash",
        "unicode-é-Ж-😀": "é Ж 😀 \x00 \x7f",
        "control": "\t\n\r\f",
        "": "empty key",
        "empty": "",
    }
    verdict, rows = oracle.query("properties", _file(mapping))
    assert verdict == "ok"
    assert {row[0]: row[1] for row in rows} == mapping == parse_properties(format_properties(mapping))


NUMBERS = [
    "0",
    "0.5",
    "100",
    "1e7",
    "9999999.5",
    "1e-3",
    "0.00099",
    "1.7976931348623157e308",
    "-12345678.25",
    "1e21",
    "123456789012345680",
    "NaN",
    "Infinity",
    "-Infinity",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_doubles_are_shown_as_java_shows_them(oracle: Oracle, number: str) -> None:
    _, rows = oracle.query("double", _hex(number))
    parsed = parse_as(ConfigType.DOUBLE, number)
    assert isinstance(parsed, float)
    assert [[java_double(parsed)]] == rows


TEXTS = {
    "INT": [
        "1",
        " 7 ",
        "+5",
        "-0",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "1.0",
        "0x10",
        "1_000",
        "",
        "--1",
        "1 2",
        "00012",
        "99999999999999999999",
        "+",
        "1e3",
    ],
    "SHORT": ["32767", "32768", "-32768", "-32769"],
    "LONG": ["9223372036854775807", "9223372036854775808", "1L", "-9223372036854775808"],
    "DOUBLE": ["1", ".5", "5.", "1e3", "1d", "1.5F", " 2 ", "x", "", "1e", "inf", "nan", "1_0"],
    "BOOLEAN": ["true", "TRUE", " False ", "yes", "1", ""],
    "LIST": ["", " ", "a", "a,b", " a , b ", "a,,b", ",", "a,", "a\t,\nb", "a b,c"],
    "STRING": ["", "  x y ", "\tx\n", "\u00a0x\u00a0"],
}


@pytest.mark.parametrize(
    ("type_name", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts]
)
def test_values_are_parsed_as_in_kafka(oracle: Oracle, type_name: str, text: str) -> None:
    verdict, rows = oracle.query("parse", type_name, _hex(text))
    type_ = ConfigType[type_name]
    try:
        shown = BROKER["node.id"]._replace(type=type_).format(parse_as(type_, text))
    except ValueError:
        assert verdict == "refused"
    else:
        assert (verdict, rows) == ("ok", [[shown]])


def _rejection(action: Callable[[], object]) -> str | None:
    try:
        action()
    except (ConfigError, KafkaError) as error:
        return str(error)
    return None


# Each case changes a valid set of properties; None removes the key.
BROKER_CASES: list[tuple[Mapping[str, str], Mapping[str, str | None]]] = [
    (COMBINED, {}),
    (BROKER_ONLY, {}),
    (CONTROLLER_ONLY, {}),
    (COMBINED, {"node.id": None}),
    (COMBINED, {"node.id": None, "broker.id": "4"}),
    (COMBINED, {"broker.id": "4"}),
    (COMBINED, {"node.id": "-1"}),
    (COMBINED, {"process.roles": None}),
    (COMBINED, {"process.roles": ""}),
    (COMBINED, {"process.roles": "broker,worker"}),
    (COMBINED, {"process.roles": "broker,broker"}),
    (COMBINED, {"controller.listener.names": None}),
    (COMBINED, {"controller.listener.names": ""}),
    (COMBINED, {"controller.listener.names": "OTHER"}),
    (COMBINED, {"controller.listener.names": "CONTROLLER,OTHER"}),
    (COMBINED, {"controller.quorum.bootstrap.servers": None}),
    (COMBINED, {"controller.quorum.bootstrap.servers": "nonsense"}),
    (COMBINED, {"controller.quorum.voters": "1@localhost:9093"}),
    (COMBINED, {"controller.quorum.voters": "2@localhost:9093"}),
    (COMBINED, {"controller.quorum.voters": "1@localhost"}),
    (COMBINED, {"controller.quorum.voters": "x@localhost:1"}),
    (BROKER_ONLY, {"controller.quorum.voters": "1@localhost:9093"}),
    (BROKER_ONLY, {"controller.quorum.auto.join.enable": "true"}),
    (COMBINED, {"controller.quorum.auto.join.enable": "true"}),
    (BROKER_ONLY, {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
    (BROKER_ONLY, {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}),
    (CONTROLLER_ONLY, {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
    (CONTROLLER_ONLY, {"listeners": "PLAINTEXT://:9092"}),
    (CONTROLLER_ONLY, {"inter.broker.listener.name": "CONTROLLER"}),
    (CONTROLLER_ONLY, {"inter.broker.listener.name": "PLAINTEXT"}),
    (COMBINED, {"listeners": ""}),
    (COMBINED, {"listeners": "PLAINTEXT://:9092"}),
    (COMBINED, {"listeners": "CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"}),
    (COMBINED, {"listeners": "PLAINTEXT://:0,CONTROLLER://:0"}),
    (COMBINED, {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092"}),
    (COMBINED, {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.2:9092"}),
    (COMBINED, {"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "plaintext://host:9092,CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "INNER://:9092,CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "PLAINTEXT:9092,CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "PLAINTEXT://ho st:9092,CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://0.0.0.0:9093"}),
    (COMBINED, {"listeners": "SSL://:9092,CONTROLLER://:9093"}),
    (COMBINED, {"listeners": "A://:9092,CONTROLLER://:9093", "listener.security.protocol.map":
                "A:PLAINTEXT,CONTROLLER:PLAINTEXT", "inter.broker.listener.name": "A"}),
    (COMBINED, {"listeners": "A://:9092,CONTROLLER://:9093", "listener.security.protocol.map":
                "A:PLAINTEXT,CONTROLLER:PLAINTEXT"}),
    (COMBINED, {"listener.security.protocol.map": "PLAINTEXT:NONE,CONTROLLER:PLAINTEXT"}),
    (COMBINED, {"listener.security.protocol.map": "PLAINTEXT"}),
    (COMBINED, {"listener.security.protocol.map": " plaintext : plaintext , controller : Plaintext "}),
    (COMBINED, {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}),
    (COMBINED, {"inter.broker.listener.name": "NOWHERE"}),
    (COMBINED, {"security.inter.broker.protocol": "SSL"}),
    (COMBINED, {"security.inter.broker.protocol": "TELNET"}),
    (COMBINED, {"advertised.listeners": "PLAINTEXT://example.org:19092"}),
    (COMBINED, {"advertised.listeners": "PLAINTEXT://example.org:19092,CONTROLLER://example.org:19093"}),
    (COMBINED, {"advertised.listeners": "PLAINTEXT://example.org:19092,CONTROLLER://example.org:19092"}),
    (COMBINED, {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}),
    (COMBINED, {"advertised.listeners": "PLAINTEXT://a:1,CONTROLLER://0.0.0.0:9092"}),
    (COMBINED, {"advertised.listeners": "SSL://example.org:9092"}),
    (COMBINED, {"advertised.listeners": "CONTROLLER://example.org:9093"}),
    (COMBINED, {"advertised.listeners": ""}),
    (COMBINED, {"early.start.listeners": "CONTROLLER"}),
    (COMBINED, {"early.start.listeners": "SSL"}),
    (COMBINED, {"log.dirs": "/a,/b", "cordoned.log.dirs": "/a"}),
    (COMBINED, {"log.dirs": "/a,/b", "cordoned.log.dirs": "/c"}),
    (COMBINED, {"log.dirs": "/a,/b", "cordoned.log.dirs": "*"}),
    (COMBINED, {"log.dirs": "/a,/b", "cordoned.log.dirs": "*,/a"}),
    (COMBINED, {"log.dirs": "/a,/a"}),
    (COMBINED, {"log.dirs": ""}),
    (COMBINED, {"log.retention.hours": "2"}),
    (COMBINED, {"log.retention.hours": "2", "log.retention.minutes": "30"}),
    (COMBINED, {"log.retention.hours": "2", "log.retention.minutes": "30", "log.retention.ms": "5"}),
    (COMBINED, {"log.retention.ms": "-5"}),
    (COMBINED, {"log.retention.ms": "0"}),
    (COMBINED, {"log.retention.minutes": "0"}),
    (COMBINED, {"log.roll.hours": "2", "log.roll.jitter.hours": "1"}),
    (COMBINED, {"log.roll.hours": "2", "log.roll.ms": "77", "log.roll.jitter.ms": "3"}),
    (COMBINED, {"log.roll.ms": "0"}),
    (COMBINED, {"log.roll.jitter.ms": "-1"}),
    (COMBINED, {"log.flush.scheduler.interval.ms": "500"}),
    (COMBINED, {"log.flush.scheduler.interval.ms": "500", "log.flush.interval.ms": "70"}),
    (COMBINED, {"log.segment.bytes": "1048575"}),
    (COMBINED, {"log.cleanup.policy": "compact,delete"}),
    (COMBINED, {"log.cleanup.policy": ""}),
    (COMBINED, {"log.cleanup.policy": "compact,shred"}),
    (COMBINED, {"compression.type": "zstd", "compression.gzip.level": "0"}),
    (COMBINED, {"compression.type": "zstd", "compression.gzip.level": "-1"}),
    (COMBINED, {"log.cleaner.dedupe.buffer.size": "1048576"}),
    (COMBINED, {"log.cleaner.threads": "128"}),
    (COMBINED, {"replica.fetch.wait.max.ms": "30001"}),
    (COMBINED, {"queued.max.request.bytes": "100"}),
    (COMBINED, {"max.connections.per.ip": "0"}),
    (COMBINED, {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5,::1:7"}),
    (COMBINED, {"max.connections.per.ip.overrides": "127.0.0.1:x"}),
    (COMBINED, {"connections.max.idle.ms": "100"}),
    (COMBINED, {"connections.max.idle.ms": "-1"}),
    (COMBINED, {"group.consumer.session.timeout.ms": "44999"}),
    (COMBINED, {"group.consumer.min.session.timeout.ms": "1", "group.consumer.session.timeout.ms": "5000"}),
    (COMBINED, {"group.coordinator.rebalance.protocols": "consumer"}),
    (COMBINED, {"group.share.assignors": "simple,other"}),
    (COMBINED, {"group.share.max.size": "1000", "group.share.max.share.sessions": "999"}),
    (COMBINED, {"group.streams.num.standby.replicas": "3"}),
    (COMBINED, {"unknown.key": "x"}),
    (COMBINED, {"listener.name.plaintext.max.connections": "7"}),
    (COMBINED, {"num.partitions": "0"}),
    (COMBINED, {"min.insync.replicas": "two"}),
    (COMBINED, {"auto.create.topics.enable": "maybe"}),
    (COMBINED, {"sasl.enabled.mechanisms": "PLAIN", "security.inter.broker.protocol": "SASL_PLAINTEXT",
                "listeners": "SASL_PLAINTEXT://:9092,CONTROLLER://:9093",
                "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}),
]  # fmt: skip


@pytest.mark.parametrize(("base", "change"), BROKER_CASES, ids=lambda case: str(case)[:120])
def test_broker_properties_are_validated_as_in_kafka(
    oracle: Oracle, base: Mapping[str, str], change: Mapping[str, str | None]
) -> None:
    properties = {name: value for name, value in {**base, **change}.items() if value is not None}
    verdict, rows = oracle.query("broker", _file(properties))
    rejection = _rejection(lambda: BrokerConfig.from_properties(properties))
    assert verdict == ("refused" if rejection else "ok"), f"Kafka: {rows}, we: {rejection}"
    if rejection:
        return
    config = BrokerConfig.from_properties(properties)
    shown = {entry.name: entry.value for entry in describe_topic(config, {})}
    for name, value in rows:
        assert name is not None
        assert shown[name] == value, name
    _, endpoints = oracle.query("advertised", _file(properties))
    ours = [*config.advertised_broker_listeners(), *config.advertised_controller_listeners()]
    assert [(e.listener_name, e.security_protocol, e.port) for e in ours] == [
        (row[0], row[1], int(row[3] or 0)) for row in endpoints
    ]
    assert all(row[2] in (None, e.host) for row, e in zip(endpoints, ours, strict=True))


TOPIC_CASES: list[Mapping[str, str]] = [
    {},
    {"segment.bytes": "1048575"},
    {"segment.bytes": "1048576"},
    {"retention.ms": "-1"},
    {"retention.ms": "-2"},
    {"retention.bytes": "-100"},
    {"cleanup.policy": ""},
    {"cleanup.policy": "compact, delete"},
    {"cleanup.policy": "compact,compact"},
    {"cleanup.policy": "compact,"},
    {"cleanup.policy": "Compact"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
    {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "9"},
    {"compression.type": "snappy"},
    {"compression.type": "none"},
    {"compression.gzip.level": "0"},
    {"compression.gzip.level": "-1"},
    {"compression.lz4.level": "18"},
    {"compression.zstd.level": "-131072"},
    {"message.timestamp.type": "logappendtime"},
    {"min.cleanable.dirty.ratio": "1.1"},
    {"min.cleanable.dirty.ratio": "1"},
    {"flush.messages": "0"},
    {"leader.replication.throttled.replicas": "*"},
    {"leader.replication.throttled.replicas": "0:1,1:2"},
    {"leader.replication.throttled.replicas": "0:1,x"},
    {"leader.replication.throttled.replicas": ""},
    {"remote.storage.enable": "true"},
    {"local.retention.ms": "-3"},
    {"preallocate": "TRUE"},
    {"max.message.bytes": " 5 "},
    {"log.retention.ms": "5"},
    {"no.such.key": "5"},
]


@pytest.mark.parametrize("overrides", TOPIC_CASES, ids=str)
@pytest.mark.parametrize("tiered", ["false", "true"])
def test_topic_overrides_are_validated_as_in_kafka(
    oracle: Oracle, overrides: Mapping[str, str], tiered: str
) -> None:
    broker = {**COMBINED, "remote.log.storage.system.enable": tiered}
    verdict, rows = oracle.query("topic", _file(broker), _file(overrides))
    config = BrokerConfig.from_properties(broker)
    rejection = _rejection(lambda: replace_topic(config, {}, overrides))
    assert verdict == ("refused" if rejection else "ok"), f"Kafka: {rows}, we: {rejection}"


TIERED = {"remote.storage.enable": "true"}
TIERED_CASES: list[Mapping[str, str]] = [
    TIERED,
    {**TIERED, "cleanup.policy": "compact"},
    {**TIERED, "cleanup.policy": "compact,delete"},
    {**TIERED, "cleanup.policy": ""},
    {**TIERED, "local.retention.ms": "-1"},
    {**TIERED, "local.retention.ms": "10", "retention.ms": "9"},
    {**TIERED, "local.retention.ms": "9", "retention.ms": "9"},
    {**TIERED, "local.retention.ms": "9", "retention.ms": "-1"},
    {**TIERED, "local.retention.bytes": "-1", "retention.bytes": "100"},
    {**TIERED, "local.retention.bytes": "-1"},
    {**TIERED, "remote.log.copy.disable": "true", "local.retention.ms": "9", "retention.ms": "10"},
    {**TIERED, "remote.log.copy.disable": "true", "local.retention.ms": "10", "retention.ms": "10"},
    {**TIERED, "remote.log.copy.disable": "true"},
]


@pytest.mark.parametrize("overrides", TIERED_CASES, ids=str)
def test_tiered_topics_are_validated_as_in_kafka(oracle: Oracle, overrides: Mapping[str, str]) -> None:
    test_topic_overrides_are_validated_as_in_kafka(oracle, overrides, "true")


GROUP_CASES: list[Mapping[str, str]] = [
    {},
    {"consumer.session.timeout.ms": "45000"},
    {"consumer.session.timeout.ms": "44999"},
    {"consumer.session.timeout.ms": "60001"},
    {"consumer.heartbeat.interval.ms": "15001"},
    {"consumer.assignment.interval.ms": "15001"},
    {"share.auto.offset.reset": "earliest"},
    {"share.auto.offset.reset": "by_duration:PT1H"},
    {"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S"},
    {"share.auto.offset.reset": "by_duration:1h"},
    {"share.auto.offset.reset": "by_duration:P"},
    {"share.auto.offset.reset": "by_duration:PT"},
    {"share.auto.offset.reset": "none"},
    {"share.isolation.level": "READ_COMMITTED"},
    {"share.isolation.level": "read_committed"},
    {"share.delivery.count.limit": "11"},
    {"share.record.lock.duration.ms": "1000"},
    {"share.partition.max.record.locks": "4001"},
    {"streams.num.standby.replicas": "3"},
    {"streams.num.standby.replicas": "2"},
    {"session.timeout.ms": "1"},
]


@pytest.mark.parametrize("overrides", GROUP_CASES, ids=str)
def test_group_overrides_are_validated_as_in_kafka(oracle: Oracle, overrides: Mapping[str, str]) -> None:
    verdict, rows = oracle.query("group", _file(COMBINED), _file(overrides))
    config = BrokerConfig.from_properties(COMBINED)
    rejection = _rejection(lambda: replace_group(config, overrides))
    assert verdict == ("refused" if rejection else "ok"), f"Kafka: {rows}, we: {rejection}"


def _as_row(entry: ConfigEntry) -> Row:
    cells: Row = [
        entry.name,
        entry.value,
        entry.source.name,
        str(entry.read_only).lower(),
        str(entry.sensitive).lower(),
        ConfigType(entry.type).name if entry.type else "UNKNOWN",
    ]
    for synonym in entry.synonyms:
        cells += [synonym.name, synonym.value, synonym.source.name]
    return cells


STATIC = {
    "log.retention.minutes": "60",
    "log.roll.hours": "24",
    "compression.type": "lz4",
    "log.cleanup.policy": "compact, delete",
    "my.own.key": "secret",
    "listener.name.plaintext.max.connections": "500",
    "ssl.key.password": "hidden",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    require_tool("java")
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), properties=STATIC) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def config(kafka: ApacheKafka) -> BrokerConfig:
    """The properties of that broker, parsed by us."""
    return BrokerConfig.from_properties(parse_properties(kafka.properties_file.read_text()))


def _alter(oracle: Oracle, kafka: ApacheKafka, type_: str, name: str, change: Alteration) -> ErrorCode:
    """Kafka's response to an incremental change."""
    key, op, value = change
    return _code(
        *oracle.query("alter", kafka.bootstrap, type_, name, AlterOp(op).name, _hex(key), _hex(value or ""))
    )


def _create(oracle: Oracle, kafka: ApacheKafka, topic: str, overrides: Mapping[str, str]) -> None:
    assert _code(*oracle.query("create", kafka.bootstrap, topic, _file(overrides))) is ErrorCode.NONE


def _code(verdict: str, rows: list[Row]) -> ErrorCode:
    assert verdict == "ok", rows
    [[code]] = rows
    assert code is not None
    return ErrorCode(int(code))


def _our_response(action: Callable[[], object]) -> ErrorCode:
    try:
        action()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


SET, DELETE, APPEND, SUBTRACT = AlterOp
ALTERATIONS: list[tuple[str, AlterOp, str]] = [
    ("retention.ms", SET, "5000"),
    ("retention.ms", SET, "soon"),
    ("retention.ms", SET, "-2"),
    ("retention.ms", APPEND, "5"),
    ("retention.ms", DELETE, ""),
    ("cleanup.policy", APPEND, "compact"),
    ("cleanup.policy", APPEND, "shred"),
    ("cleanup.policy", SUBTRACT, "delete"),
    ("cleanup.policy", SUBTRACT, "compact"),
    ("no.such.key", SET, "5"),
    ("no.such.key", APPEND, "5"),
    ("no.such.key", DELETE, ""),
    ("remote.storage.enable", SET, "true"),
    ("message.max.bytes", SET, "5000"),
    ("message.max.bytes", SET, "x"),
    ("message.max.bytes", SET, "-1"),
    ("message.max.bytes", APPEND, "5"),
    ("message.max.bytes", DELETE, ""),
    ("node.id", SET, "5"),
    ("node.id", DELETE, ""),
    ("num.partitions", SET, "5"),
    ("listener.security.protocol.map", SET, "PLAINTEXT:PLAINTEXT"),
    ("ssl.keystore.location", SET, "/x"),
    ("leader.replication.throttled.rate", SET, "5"),
    ("leader.replication.throttled.rate", SET, "-5"),
    ("log.cleaner.dedupe.buffer.size", SET, "5"),
    ("log.retention.ms", SET, "0"),
    ("log.retention.ms", SET, "3600000"),
    ("log.retention.hours", SET, "5"),
    ("metric.reporters", SUBTRACT, "org.apache.kafka.common.metrics.JmxReporter"),
    ("consumer.session.timeout.ms", SET, "50000"),
    ("consumer.session.timeout.ms", SET, "5"),
    ("consumer.session.timeout.ms", DELETE, ""),
    ("share.auto.offset.reset", SET, "sometimes"),
    ("streams.num.standby.replicas", SET, "3"),
]


@pytest.mark.parametrize("alteration", ALTERATIONS, ids=str)
@pytest.mark.parametrize("resource", ["topic", "group", "broker", "cluster"])
def test_changes_get_kafkas_response(
    oracle: Oracle,
    kafka: ApacheKafka,
    config: BrokerConfig,
    resource: str,
    alteration: tuple[str, AlterOp, str],
) -> None:
    change = Alteration(*alteration)
    name = f"changed-{ALTERATIONS.index(alteration)}"
    if resource == "topic":
        _create(oracle, kafka, name, {})
        theirs = _alter(oracle, kafka, "topic", name, change)
        ours = _our_response(lambda: alter_topic(config, {}, [change]))
    elif resource == "group":
        theirs = _alter(oracle, kafka, "group", name, change)
        ours = _our_response(lambda: alter_group(config, {}, [change]))
    else:
        name = "1" if resource == "broker" else ""
        theirs = _alter(oracle, kafka, "broker", name, change)
        per_broker = resource == "broker"
        ours = _our_response(
            lambda: replace_broker(
                config, alter_broker_keys({}, [change], per_broker=per_broker), per_broker=per_broker
            )
        )
        if theirs is ErrorCode.NONE:
            _alter(oracle, kafka, "broker", name, Alteration(change.name, DELETE, ""))
    assert ours is theirs


def test_describe_shows_the_same_as_kafka(oracle: Oracle, kafka: ApacheKafka, config: BrokerConfig) -> None:
    """Every layer has a value, and Kafka's own admin client describes the configs."""
    defaults = {"log.retention.ms": "7200000", "log.segment.bytes": "2097152", "message.max.bytes": "2000000"}
    own = {"message.max.bytes": "3000000", "log.roll.ms": "5000000"}
    topic = {"segment.bytes": "3145728", "cleanup.policy": "delete, compact"}
    group = {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}
    _create(oracle, kafka, "described", topic)
    for type_, resource_name, settings in (
        ("broker", "", defaults),
        ("broker", "1", own),
        ("group", "described", group),
    ):
        for key, value in settings.items():
            change = Alteration(key, SET, value)
            assert _alter(oracle, kafka, type_, resource_name, change) is ErrorCode.NONE
    # Formatting with eligible leader replicas (KIP-966) pins the cluster's min.insync.replicas dynamically.
    defaults["min.insync.replicas"] = "1"
    changed = config.with_dynamic(defaults, own)

    def ours(entries: list[ConfigEntry]) -> dict[str | None, Row]:
        return {
            entry.name: _as_row(entry)
            for entry in entries
            if not entry.name.startswith("ruslo.") and entry.name not in KAFKA_4_4
        }

    def theirs(type_: str, name: str) -> dict[str | None, Row]:
        verdict, rows = oracle.query("describe", kafka.bootstrap, type_, name)
        assert verdict == "ok", rows
        return {row[0]: row for row in rows}

    for entries, type_, resource_name in (
        (describe_broker_defaults(changed), "broker", ""),
        (describe_broker(changed), "broker", "1"),
        (describe_topic(changed, topic), "topic", "described"),
        (describe_group(changed, group), "group", "described"),
    ):
        expected = ours(entries)
        # A broker applies a change a moment after the controller has committed it.
        for _ in range(600):
            if theirs(type_, resource_name) == expected:
                break
            time.sleep(0.1)
        assert expected == theirs(type_, resource_name)
