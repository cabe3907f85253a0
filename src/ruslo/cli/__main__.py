"""``python -m ruslo.cli``."""

from __future__ import annotations

from ruslo.cli.main import main

main()
