"""How to install the optional dependencies."""

from __future__ import annotations


def install_extra(extra: str) -> str:
    """How to install an extra. Ruslo is not on a package index, so pip needs the file."""
    return (
        f"install the extra '{extra}' from the file of the package, "
        f"pip install 'ruslo-VERSION-py3-none-any.whl[{extra}]', or run 'make setup' in a working copy"
    )
