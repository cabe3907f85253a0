from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.pipeline.files.python_ref import FunctionShape, ReferenceProblem, function_shape, load_function


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steps.py").write_text(
        "from json import dumps\n"
        "LIMIT = undefined_on_purpose if False else 3\n"
        "def enrich(orders, customers, limit='5', *, spark):\n    return orders\n"
        "alias = enrich\n"
    )
    (tmp_path / "explodes.py").write_text("def f(a): ...\nraise SystemExit('was run')\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    return tmp_path


def test_the_parameters_are_found_without_running_the_module(folder: Path) -> None:
    shape = function_shape("steps:enrich", folder)
    assert shape == FunctionShape(
        ("orders", "customers", "limit", "spark"), frozenset({"orders", "customers", "spark"})
    )
    assert function_shape("explodes:f", folder).parameters == ("a",)


def test_imported_and_assigned_names_are_inspected_by_loading_the_module(folder: Path) -> None:
    assert function_shape("steps:alias", folder).parameters[0] == "orders"
    assert function_shape("steps:dumps", folder).parameters[0] == "obj"


def test_functions_of_installed_packages(folder: Path) -> None:
    assert "obj" in function_shape("json:dumps", folder).parameters


@pytest.mark.parametrize(
    ("reference", "message", "fix"),
    [
        ("steps", "invalid function reference", "module:function"),
        ("steps:not a name", "invalid function reference", "module:function"),
        ("nowhere:f", "unknown module 'nowhere'", "nowhere.py"),
        ("steps:enrch", "no function 'enrch'", "'enrich'"),
        ("broken:f", "is invalid Python", "Correct"),
    ],
)
def test_invalid_references(folder: Path, reference: str, message: str, fix: str) -> None:
    with pytest.raises(ReferenceProblem) as caught:
        function_shape(reference, folder)
    assert message in caught.value.message
    assert fix in caught.value.fix


def test_modules_of_two_folders_may_have_the_same_name(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "steps.py").write_text("def enrich():\n    return 'other'\n")
    assert load_function("steps:enrich", other)() == "other"
    assert load_function("steps:enrich", folder)(1, 2, spark=None) == 1
