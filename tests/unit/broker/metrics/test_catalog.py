"""The catalogue, the documentation table, the dashboard and the alerts name the same metrics.

``test_node_metrics`` compares the catalogue with the metrics that a node exports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from ruslo.broker.metrics.catalog import CATALOG
from ruslo.broker.metrics.reference import main

ROOT = Path(__file__).parents[4]
DASHBOARD = ROOT / "deploy/grafana/ruslo.json"
ALERTS = ROOT / "deploy/prometheus/ruslo-alerts.yml"
METRIC_NAME = re.compile(r"\b(?:kafka|ruslo|process)_[a-z_]+")
LABEL_FILTER = re.compile(r"(\w+)(?==~?\"|!=\")")
LABELS_OF_PROMETHEUS = {"job", "instance"}
SAMPLES = {
    sample: metric
    for metric in CATALOG
    for sample in (
        [f"{metric.name}{suffix}" for suffix in ("_bucket", "_sum", "_count")]
        if metric.kind == "histogram"
        else [metric.name]
    )
}


def check_expression(expression: str) -> None:
    names = METRIC_NAME.findall(expression)
    assert names or expression.startswith("up{"), expression
    labels = set(LABELS_OF_PROMETHEUS)
    for name in names:
        assert name in SAMPLES, f"{name} is not exported: {expression}"
        labels |= set(SAMPLES[name].labels)
    assert set(LABEL_FILTER.findall(expression)) <= labels, expression
    for name in names:
        counted = SAMPLES[name].kind == "counter" or name.endswith("_bucket")
        rated = re.search(rf"(?:rate|increase)\({name}\{{", expression) is not None
        assert counted == rated, f"use rates of counters, not of gauges: {expression}"


def test_documentation_table_is_current() -> None:
    assert main(["--check", "--page", str(ROOT / "docs/metrics.md")]) == 0


def test_outdated_table_is_reported_and_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "metrics.md"
    text = (ROOT / "docs/metrics.md").read_text()
    page.write_text(text.replace("kafka_consumergroup_lag", "kafka_consumergroup_delay"))
    assert main(["--check", "--page", str(page)]) == 1
    assert main(["--page", str(page)]) == 0
    assert main(["--check", "--page", str(page)]) == 0
    assert page.read_text().count("| `kafka_consumergroup_lag` |") == 1


def panels() -> Iterator[dict[str, object]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        if panel["type"] != "row":
            yield panel


def test_dashboard_uses_exported_metrics() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["title"]
        targets = panel["targets"]
        assert isinstance(targets, list)
        for target in targets:
            check_expression(target["expr"].replace("$__rate_interval", "1m"))
    for variable in dashboard["templating"]["list"]:
        assert set(METRIC_NAME.findall(variable["query"])) <= set(SAMPLES)


def test_panels_do_not_overlap() -> None:
    occupied: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & occupied, panel["title"]
        occupied |= cells


def test_alerts_use_exported_metrics_and_describe_the_remedy() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names) > 10
    for rule in rules:
        # deriv and predict_linear are the rates of gauges.
        check_expression(rule["expr"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "action"}
