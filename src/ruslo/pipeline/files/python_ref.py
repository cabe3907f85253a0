"""``module:function`` references: inspected without running the module, and loaded to run the function."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ruslo.model.errors import ConfigError
from ruslo.pipeline.suggestions import nearest


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """The parameter names of a function; ``required`` ones have no default."""

    parameters: tuple[str, ...]
    required: frozenset[str]


class ReferenceProblem(ConfigError):
    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"{message}. {fix}")
        self.message = message
        self.fix = fix


def split_reference(reference: str) -> tuple[str, str]:
    module, separator, function = reference.partition(":")
    if not separator or not module or not function.isidentifier():
        raise ReferenceProblem(
            f"invalid function reference {reference!r}", "Write module:function, such as enrich:add_country."
        )
    return module.removesuffix(".py"), function


def function_shape(reference: str, folder: Path) -> FunctionShape:
    """Read from the source, without running the module if possible."""
    module, function = split_reference(reference)
    source = source_file(module, folder)
    if source is None:
        raise ReferenceProblem(
            f"unknown module {module!r}",
            f"Add {module.rpartition('.')[2]}.py beside the pipeline file, or install the package.",
        )
    if source.suffix != ".py":
        return shape_of(load_function(reference, folder))  # a compiled module must be loaded
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"), str(source))
    except (SyntaxError, UnicodeDecodeError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ReferenceProblem(
            f"{source.name} is invalid Python: {reason}{where}", "Correct the module."
        ) from None
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if function in found:
        return _shape(found[function].args)
    if function in _names_bound(tree):
        return shape_of(load_function(reference, folder))  # defined by an import or an assignment
    raise ReferenceProblem(f"{source.name} has no function {function!r}", nearest(function, found))


def source_file(module: str, folder: Path) -> Path | None:
    """The file of a module: beside the pipeline file, or on Python's path."""
    beside = folder.joinpath(*module.split(".")).with_suffix(".py")
    if beside.is_file():
        return beside
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def load_function(reference: str, folder: Path) -> Callable[..., object]:
    name, function = split_reference(reference)
    loaded = getattr(load_module(name, folder), function, None)
    if not callable(loaded):
        raise ReferenceProblem(f"{name} has no function {function!r}", "Define it, or correct the name.")
    return loaded  # type: ignore[no-any-return]


def load_module(name: str, folder: Path) -> ModuleType:
    source = source_file(name, folder)
    if source is None or not source.is_relative_to(folder):
        return importlib.import_module(name)
    return load_file(source)


def load_file(source: Path) -> ModuleType:
    """Load a module beside a pipeline under a unique name: two pipelines may both have a ``steps.py``.

    Executors do not have the file, so its functions are pickled by value.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    name = f"ruslo_pipeline_{abs(hash(source.resolve())):x}_{source.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None, "a .py file has a spec"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def shape_of(function: Callable[..., object]) -> FunctionShape:
    parameters = inspect.signature(function).parameters.values()
    return FunctionShape(
        tuple(parameter.name for parameter in parameters),
        frozenset(parameter.name for parameter in parameters if parameter.default is parameter.empty),
    )


def _shape(arguments: ast.arguments) -> FunctionShape:
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    keyword_only = [argument.arg for argument in arguments.kwonlyargs]
    optional = set(positional[len(positional) - len(arguments.defaults) :])
    optional |= {
        name for name, default in zip(keyword_only, arguments.kw_defaults, strict=True) if default is not None
    }
    names = (*positional, *keyword_only)
    return FunctionShape(names, frozenset(names) - optional)


def _names_bound(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names
