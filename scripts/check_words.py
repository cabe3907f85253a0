"""Reject words that the project does not use: ``python scripts/check_words.py``.

Kafka has a noun for most things, and plain English a word for the rest. This list keeps words out that once
stood in their place, so readers find what they search for.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".yaml", ".yml", ".toml", ".sh", ".java", ".c", ".h"}
SKIPPED = ("src/ruslo/protocol/messages/", "scripts/check_words.py")

BANNED = {
    r"whoever|whomever|whosoever": "name the actor: client, broker, leader, caller",
    r"somebody|nobody|anybody|everybody": "name the actor: client, broker, leader, caller",
    r"anew": "again, rebuilt, recreated",
    r"amid": "in the middle of",
    r"whereabouts": "preferred read replica, replica selector",
    r"unfold|unfolds|unfolded|unfolding": "decompress",
    r"letter ?box": "dead-letter staging",
    r"courtesy": "CPU priority",
    r"patience|impatient|impatience": "retry policy, timeout",
    r"chores?": "work, task, housekeeping",
    r"look_around|take_turn|take_turns|used_up|in_turns": "a verb that a reader can guess",
    r"which there is not|which there are not|that is none": "does not exist, is invalid",
    r"is no(?= (?:whole|sound|record|replica|leader|voter|member|batch|topic|broker|host))": "is not a",
}
PATTERN = re.compile(
    "|".join(rf"(?P<w{at}>(?<![A-Za-z])(?:{words})(?![A-Za-z]))" for at, words in enumerate(BANNED)),
    re.IGNORECASE,
)


def main() -> int:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = 0
    for name in names.splitlines():
        path = ROOT / name
        if path.suffix not in SUFFIXES or name.startswith(SKIPPED) or not path.is_file():
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            for match in PATTERN.finditer(line):
                instead = list(BANNED.values())[int((match.lastgroup or "w0")[1:])]
                print(f"{name}:{number}: '{match.group()}'. Write instead: {instead}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
