from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.pack.distributions import files_of, needed_distributions


def test_what_executors_need_and_nothing_of_the_cluster() -> None:
    found = needed_distributions()
    assert {"ruslo", "numba", "llvmlite", "numpy", "pandas", "pyarrow", "crc32c"} <= found.keys()
    assert not {"pyspark", "py4j", "pytest", "mypy"} & found.keys()


def test_own_files_come_from_where_they_were_imported() -> None:
    places = {place: path for path, place in files_of(needed_distributions()["ruslo"])}
    assert "ruslo/pipeline/pack/distributions.py" in places
    assert not [place for place in places if "__pycache__" in place]


def test_packages_may_be_added_and_must_be_installed() -> None:
    assert "hypothesis" in needed_distributions(["Hypothesis"])
    with pytest.raises(ConfigError, match="'no-such-thing' is not installed here"):
        needed_distributions(["no_such.thing"])
