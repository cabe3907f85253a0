"""The page docs/protocol.md: which requests a node answers, made from the table that it answers by.

``python -m ruslo.broker.node.api_reference`` writes it; the exit code of ``--check`` says whether it is
current.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from ruslo.broker.dispatch.api_table import CONTROLLER_HANDLERS, HANDLERS
from ruslo.protocol.apis import API_BY_KEY, KAFKA_4_4_VERSIONS, Api

DEFAULT_PAGE = Path("docs/protocol.md")
_HOT = ("Produce", "Fetch")

_INTRODUCTION = """\
# Requests of Kafka's protocol

<!-- generated: make generate -->

These are the requests that Apache Kafka 4.3 answers, by listener. Those with *yes* are answered in each of
the versions named, which are the ones that Apache Kafka 4.3 answers, and the versions that 4.4 added where
the last column says so; a test sends those of brokers to a node in each version. The others are not announced
in ApiVersions, so a client knows before it sends one: it takes another way, or says what is missing. What
that means for users is in [limits.md](limits.md).

UnregisterController (94) of Apache Kafka 4.4 is not answered. No metadata record of 4.3 can remove the
registration of a controller, and nodes of 4.3 could not read the record of 4.4, which Ruslo never writes: not
even with `metadata.version` 4.4-IV0, which `unstable.feature.versions.enable` allows. A client that sends the
request reports UNSUPPORTED_VERSION.

With `unstable.api.versions.enable`, as in Apache Kafka, InitProducerId has version 6 in addition (KIP-939).

A new cluster finalizes the features that Apache Kafka finalizes with the same `metadata.version`, so that
either system can start on the other's directories. At level 0 of `group.version`, `share.version` or
`streams.version` the requests of these groups are listed, but answered with UNSUPPORTED_VERSION."""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield from _table("Listeners of brokers", "broker", {*HANDLERS, *_HOT})
    yield from _table("Listeners of controllers", "controller", CONTROLLER_HANDLERS)


def _table(title: str, listener: str, served: Collection[str]) -> Iterator[str]:
    apis = [api for api in API_BY_KEY.values() if listener in api.listeners and api.max_version >= 0]
    answered = sum(api.name in served for api in apis)
    yield f"\n## {title}\n\n{answered} of {len(apis)} are answered.\n"
    yield "| key | request | versions | answered |"
    yield "|---|---|---|---|"
    for api in sorted(apis, key=lambda api: api.key):
        answered_here = _answer(api) if api.name in served else "not yet"
        yield f"| {api.key} | {api.name} | {_versions(api)} | {answered_here} |"


def _answer(api: Api) -> str:
    newer = KAFKA_4_4_VERSIONS.get(api.name)
    return "yes" if newer is None else f"yes, with {newer} of Kafka 4.4"


def _versions(api: Api) -> str:
    if api.min_version == api.max_version:
        return str(api.max_version)
    return f"{api.min_version} to {api.max_version}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if it is not current")
    parser.add_argument("--page", type=Path, default=DEFAULT_PAGE)
    options = parser.parse_args(arguments)
    if not options.check:
        options.page.write_text(page())
    elif options.page.read_text() != page():
        print(f"{options.page} is not what the table of requests says; run make generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
