"""Runs the programs that a page shows, in Python, Java and Go, and checks the files it shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml

from ruslo.config.broker import BrokerConfig
from ruslo.config.properties import parse_properties
from tests.docs.blocks import ROOT, Block
from tests.support.tools.kafka_jars import compile_java, kafka_classpath

TIMEOUT_S = 120
FRANZ_GO = ROOT / "tests/interop/franz_go"


def run_python(block: Block, text: str, names: dict[str, Any], folder: Path) -> None:
    """Run in this process; a block sees the definitions of the blocks before it."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(compile("\n" * block.line + text, str(ROOT / block.page), "exec"), names)
    finally:
        os.chdir(before)


def run_java(text: str, folder: Path) -> None:
    """A block is a whole class with a main method, run with Kafka's own client."""
    name = re.search(r"public (?:final )?class (\w+)", text)
    assert name is not None, "a Java block has a public class"
    source = folder / f"{name[1]}.java"
    source.write_text(text)
    classes = compile_java(source)
    _run(["java", "-cp", f"{classes}:{kafka_classpath()}", name[1]], folder)


def run_go(text: str, folder: Path) -> None:
    """A block is a whole program with franz-go, in the versions that the interop tests use."""
    project = folder / "go"
    project.mkdir(exist_ok=True)
    for each in ("go.mod", "go.sum"):
        shutil.copy(FRANZ_GO / each, project)
    (project / "main.go").write_text(text)
    _run(["go", "build", "-o", "program", "."], project)
    _run([str(project / "program")], folder)


def _run(command: list[str], folder: Path) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert result.returncode == 0, f"{command[0]}: {result.stdout}{result.stderr}"


def check_file(language: str, text: str) -> None:
    """A block that shows a file must parse."""
    if language == "yaml":
        for document in yaml.safe_load_all(text):
            assert document is not None
    elif language == "toml":
        assert tomllib.loads(text)
    elif language == "json":
        # One document, or one per line.
        try:
            json.loads(text)
        except json.JSONDecodeError:
            for line in text.splitlines():
                json.loads(line)
    elif language == "properties":
        check_properties(text)
    else:
        assert language in ("text", "promql"), f"there is no check for a block of {language!r}"


def check_properties(text: str) -> None:
    """Properties of a node, complete or in part: every key exists, has an effect, and accepts the value."""
    smallest = {"process.roles": "broker", "node.id": "1", "controller.quorum.voters": "9@localhost:9093"}
    smallest |= {"controller.listener.names": "CONTROLLER"}
    shown = parse_properties(text)
    report = BrokerConfig.from_properties(shown if "process.roles" in shown else smallest | shown).report()
    assert not report.unknown, report.unknown
    assert not report.without_effect, report.without_effect
