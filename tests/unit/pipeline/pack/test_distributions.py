from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.pack.distributions import files_of, needed_distributions


def test_executors_need_these_packages_but_not_those_of_the_cluster() -> None:
    found = needed_distributions()
    assert {
        "ruslo",
        "numba",
        "llvmlite",
        "numpy",
        "pandas",
        "pyarrow",
        "fastavro",
        "protobuf",
    } <= found.keys()
    assert not {"pyspark", "py4j", "pytest", "mypy"} & found.keys()


def test_own_files_are_those_of_the_imported_package() -> None:
    names = [name for _, name in files_of(needed_distributions()["ruslo"])]
    assert "ruslo/pipeline/pack/distributions.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_additional_packages_must_be_installed() -> None:
    assert "hypothesis" in needed_distributions(["Hypothesis"])
    with pytest.raises(ConfigError, match="'no-such-thing' is not installed"):
        needed_distributions(["no_such.thing"])
