from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import ruslo.broker
from ruslo.config import effects
from ruslo.config.definition import REQUIRED, ConfigTable, ConfigType
from ruslo.config.dynamic import ONLY_PER_LISTENER
from ruslo.config.log_config import LogConfig
from ruslo.config.log_defaults import FIELD_OF_KEY
from ruslo.config.tables import BROKER, BROKER_DYNAMIC_ONLY, BROKER_SECTIONS, GROUP, TOPIC

TABLES = [BROKER, BROKER_DYNAMIC_ONLY, TOPIC, GROUP]
PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple,
}


def test_every_key_of_kafka_is_declared_once() -> None:
    assert sum(len(keys) for _, keys in BROKER_SECTIONS) == len(BROKER) == 340 + 1 + 7
    assert (len(TOPIC), len(GROUP), len(BROKER_DYNAMIC_ONLY)) == (33 + 1, 17, 3)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.resource)
def test_declarations_are_sound(table: ConfigTable) -> None:
    for key in table:
        assert key.doc.endswith("."), key.name
        assert key.doc[0].isupper() or key.doc.startswith("SO_"), key.name
        if key.default is None or key.default is REQUIRED:
            continue
        assert isinstance(key.default, PYTHON_TYPES.get(key.type, str)), key.name
        shown = key.default_text
        assert shown is not None
        assert key.parse(shown) == key.default, key.name


@pytest.mark.parametrize("table", [TOPIC, GROUP], ids=lambda table: table.resource)
def test_synonyms_are_broker_keys_of_the_same_default(table: ConfigTable) -> None:
    for key in table:
        for name in key.synonyms:
            assert name in BROKER, key.name
        if len(key.synonyms) == 1:
            assert BROKER[key.synonyms[0]].default == key.default, key.name


def test_lists_of_implemented_keys_name_real_keys() -> None:
    assert set(BROKER.keys) >= effects.IMPLEMENTED_BROKER_KEYS
    assert set(BROKER_DYNAMIC_ONLY.keys) >= effects.IMPLEMENTED_DYNAMIC_ONLY_KEYS
    assert set(BROKER.keys) >= effects.IMPLEMENTED_PER_LISTENER_KEYS
    assert set(TOPIC.keys) >= effects.IMPLEMENTED_TOPIC_KEYS
    assert set(GROUP.keys) >= effects.IMPLEMENTED_GROUP_KEYS
    assert set(BROKER.keys) >= ONLY_PER_LISTENER


def test_keys_that_a_broker_reads_are_listed_as_implemented() -> None:
    """Else the broker would warn its user that a setting has no effect although it has one."""
    reads = re.compile(r"""\.(?:bool|float|int|list|opt_int|opt_str|str)\(\s*"([a-z0-9._]+)"\s*\)""")
    sources = Path(ruslo.broker.__file__).parent.rglob("*.py")
    read = {name for source in sources for name in reads.findall(source.read_text()) if name in BROKER}
    assert "num.partitions" in read
    assert read <= effects.IMPLEMENTED_BROKER_KEYS


def test_a_topic_key_has_an_effect_only_if_its_broker_key_has() -> None:
    for key in TOPIC:
        if TOPIC.implements(key.name):
            assert all(map(BROKER.implements, key.synonyms)), key.name


def test_log_config_has_a_field_of_the_same_default_for_every_topic_key() -> None:
    config = LogConfig()
    assert set(FIELD_OF_KEY.values()) == {field.name for field in fields(LogConfig)}
    for key in TOPIC:
        value = getattr(config, FIELD_OF_KEY[key.name])
        assert value == (frozenset(("delete",)) if key.name == "cleanup.policy" else key.default), key.name


def test_nothing_heavy_is_imported_to_know_the_keys() -> None:
    code = "import ruslo.config.broker, sys; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "ruslo.config.tables" in loaded
    assert not loaded & {"difflib", "ipaddress", "argparse", "asyncio", "json", "logging"}
    assert not {name for name in loaded if name.startswith("ruslo.")} - {
        name for name in loaded if name.startswith(("ruslo.config", "ruslo.model"))
    }
