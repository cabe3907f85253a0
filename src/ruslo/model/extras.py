"""How the optional parts of the package are installed."""

from __future__ import annotations


def install_extra(extra: str) -> str:
    """The way to the packages of an extra. Ruslo is on no index, so pip must not look for its name."""
    return (
        f"install the extra '{extra}' from the file of the package, "
        f"pip install 'ruslo-VERSION-py3-none-any.whl[{extra}]', or run 'make setup' in a working copy"
    )
