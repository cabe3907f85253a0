"""Update requirements/*.lock to the newest versions that pyproject.toml allows, with hashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILES = {
    "build": ["--group", "build"],
    "runtime": ["pyproject.toml", "--extra", "spark", "--extra", "console", "--group", "build"],
    "dev": ["pyproject.toml", "--extra", "spark", "--extra", "console", "--group", "dev"],
    "kerberos": ["pyproject.toml", "--extra", "kerberos", "--constraint", "requirements/dev.lock"],
}


def main() -> int:
    for profile, arguments in PROFILES.items():
        command = [sys.executable, "-m", "uv", "pip", "compile", *arguments]
        command += ["--universal", "--python-version", "3.11", "--upgrade", "--generate-hashes", "--quiet"]
        command += ["--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock"]
        command += ["--output-file", f"requirements/{profile}.lock"]
        subprocess.run(command, cwd=ROOT, check=True)
        print(f"wrote requirements/{profile}.lock")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
