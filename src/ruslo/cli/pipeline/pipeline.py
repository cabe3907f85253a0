"""``ruslo pipeline``: Spark pipelines defined in files."""

from __future__ import annotations

from ruslo.cli.arguments.options import examples
from ruslo.cli.lazy import LazyCommand, LazyGroup

pipeline = LazyGroup(
    "pipeline",
    lazy={
        "init": LazyCommand("ruslo.cli.pipeline.init", "init", "Create an example pipeline file."),
        "lint": LazyCommand("ruslo.cli.pipeline.lint", "lint", "Find mistakes in pipeline files."),
        "test": LazyCommand("ruslo.cli.pipeline.test", "test", "Run the examples in pipeline files."),
        "run": LazyCommand("ruslo.cli.pipeline.run", "run", "Run pipelines."),
        "status": LazyCommand("ruslo.cli.pipeline.status", "status", "Show the state of pipelines."),
        "stop": LazyCommand(
            "ruslo.cli.pipeline.stop", "stop", "Stop running pipelines after their current batch."
        ),
        "reset": LazyCommand("ruslo.cli.pipeline.reset", "reset", "Delete the checkpoint of a pipeline."),
        "pack": LazyCommand(
            "ruslo.cli.pipeline.pack", "pack", "Pack the Python environment for a Spark cluster."
        ),
    },
    help="Data pipelines on Spark. A file defines sources, steps in SQL or Python, and a sink.\n\n"
    "Pipelines need the extra 'spark' of the package.",
    epilog=examples(
        "ruslo pipeline init orders.yaml",
        "ruslo pipeline lint orders.yaml",
        "ruslo pipeline test orders.yaml",
        "ruslo pipeline run orders.yaml",
    ),
)
pipeline.short_help = "Run data pipelines on Spark."
