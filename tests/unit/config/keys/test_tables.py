from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_origin, get_type_hints

import pytest

import ruslo.broker
import ruslo.config
from ruslo.config.definition import REQUIRED, ConfigTable, ConfigType
from ruslo.config.keys.broker import BROKER, BROKER_DYNAMIC_ONLY, BROKER_SECTIONS
from ruslo.config.keys.group import GROUP
from ruslo.config.log_config import TOPIC, LogConfig, field_of

TABLES = [BROKER, BROKER_DYNAMIC_ONLY, TOPIC, GROUP]
PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple,
}


def test_every_property_of_kafka_is_in_a_table() -> None:
    assert sum(len(keys) for _, keys in BROKER_SECTIONS) == len(BROKER) == 340 + 6 + 1 + 11 + 3 + 6 + 2
    assert (len(TOPIC), len(GROUP), len(BROKER_DYNAMIC_ONLY)) == (33 + 4 + 1 + 1, 17 + 5 + 4 + 2 + 3, 3)


def test_each_property_is_declared_in_one_row() -> None:
    """Topics and groups declare their row of a broker property with ``inherited``, without a default."""
    declared = [
        node.args[0].value
        for source in Path(ruslo.config.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ConfigKey"
        if isinstance(node.args[0], ast.Constant) and node.args[0].value
    ]
    assert len(declared) == len(set(declared))
    assert set(declared) == {*BROKER.keys, *BROKER_DYNAMIC_ONLY.keys} | {
        key.name for key in GROUP if not key.synonyms
    }
    of_topics = {field_of(key.name) for key in TOPIC}
    assert of_topics == {each.name for each in fields(LogConfig)}


def test_defaults_are_declared_in_the_rows_only() -> None:
    """No module outside the tables repeats the default of a log property."""
    shown_types = {str(getattr(LogConfig(), name)) for name in ("max_message_bytes", "segment_bytes")}
    package = Path(ruslo.config.__file__).parents[1]
    repeated = [
        f"{source.relative_to(package)}:{node.lineno}"
        for source in package.rglob("*.py")
        if source.relative_to(package).parts[:2] != ("config", "keys")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Constant) and type(node.value) is int and str(node.value) in shown_types
    ]
    assert repeated == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.resource)
def test_declarations_are_valid(table: ConfigTable) -> None:
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
def test_synonyms_are_broker_properties_with_the_same_default(table: ConfigTable) -> None:
    for key in table:
        for name in key.synonyms:
            assert name in BROKER, key.name
        if len(key.synonyms) == 1:
            assert BROKER[key.synonyms[0]].default == key.default, key.name


def test_properties_that_a_broker_reads_have_an_effect() -> None:
    """Otherwise the broker would warn that a property has no effect although it has one."""
    reads = re.compile(r"""\.(?:bool|float|int|list|opt_int|opt_str|str)\(\s*"([a-z0-9._]+)"\s*\)""")
    # No request reaches the coordinator of share groups yet.
    sources = [each for each in Path(ruslo.broker.__file__).parent.rglob("*.py") if "share" not in each.parts]
    read = {name for source in sources for name in reads.findall(source.read_text()) if name in BROKER}
    assert "num.partitions" in read
    assert [name for name in read if not BROKER[name].has_effect] == []


def test_fields_of_log_config_have_the_type_of_their_property() -> None:
    types = get_type_hints(LogConfig)
    for key in TOPIC:
        python_type = PYTHON_TYPES.get(key.type, str)
        declared = types[field_of(key.name)]
        assert (get_origin(declared) or declared) is python_type, key.name


def test_the_tables_import_no_heavy_module() -> None:
    code = "import ruslo.config.broker, sys; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "ruslo.config.keys.broker" in loaded
    assert not loaded & {"difflib", "ipaddress", "argparse", "asyncio", "json", "logging"}
    assert not {name for name in loaded if name.startswith("ruslo.")} - {
        name for name in loaded if name.startswith(("ruslo.config", "ruslo.model"))
    }
