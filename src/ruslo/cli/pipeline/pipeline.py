"""``ruslo pipeline``: Spark pipelines as files."""

from __future__ import annotations

from ruslo.cli.arguments.options import examples
from ruslo.cli.lazy import LazyCommand, LazyGroup

pipeline = LazyGroup(
    "pipeline",
    lazy={
        "init": LazyCommand("ruslo.cli.pipeline.init", "init", "Write a pipeline file to begin with."),
        "lint": LazyCommand("ruslo.cli.pipeline.lint", "lint", "Find mistakes in pipeline files."),
        "test": LazyCommand("ruslo.cli.pipeline.test", "test", "Run the examples in pipeline files."),
        "run": LazyCommand("ruslo.cli.pipeline.run", "run", "Run pipelines."),
        "status": LazyCommand("ruslo.cli.pipeline.status", "status", "Show how running pipelines do."),
        "stop": LazyCommand("ruslo.cli.pipeline.status", "stop", "Stop running pipelines after their batch."),
        "reset": LazyCommand("ruslo.cli.pipeline.reset", "reset", "Forget how far a pipeline is."),
        "pack": LazyCommand("ruslo.cli.pipeline.pack", "pack", "Pack the environment for a Spark cluster."),
    },
    help="Data pipelines on Spark: a source, steps in SQL or Python, a sink, in one file.\n\n"
    "They need the extra 'spark' of the package.",
    epilog=examples(
        "ruslo pipeline init orders.yaml",
        "ruslo pipeline lint orders.yaml",
        "ruslo pipeline test orders.yaml",
        "ruslo pipeline run orders.yaml",
    ),
)
pipeline.short_help = "Run data pipelines on Spark."
