"""The tables of the newest protocol are those of Apache Kafka 4.4: APIs, messages, versions, fields, errors.

``test_protocol_oracle.py`` compares the bytes, and the tables with Apache Kafka 4.3.
"""

from __future__ import annotations

import zipfile
from pathlib import PurePath

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.headers import request_header_version, response_header_version
from tests.interop.test_protocol_oracle import compare_schemas, query
from tests.support.protocol.values import all_messages, message_class
from tests.support.tools.kafka_jars import newer_clients_jar

pytestmark = pytest.mark.usefixtures("needs_java")

FILE_FORMATS = {"AbortedTxn"}
"""Entries of files that only the jar of 4.4 describes in this form; ``storage/txn_index.py`` writes them."""


def test_every_api() -> None:
    (response,) = query([{"op": "apis"}], newer=True)
    assert {each["key"] for each in response["apis"]} == API_BY_KEY.keys()
    for theirs in response["apis"]:
        ours = API_BY_KEY[theirs["key"]]
        assert ours.name.lower() == theirs["name"].replace("_", "").lower()
        assert (ours.min_version, ours.max_version) == (theirs["lowest"], theirs["highestStable"]), ours
        highest = theirs["highest"]
        for message in (message_class(f"{ours.name}Request"), message_class(f"{ours.name}Response")):
            assert (theirs["lowest"], highest) == (message.MIN_VERSION, message.MAX_VERSION), ours
        assert (ours.forwardable, ours.cluster_action) == (theirs["forwardable"], theirs["clusterAction"]), (
            ours
        )
        assert sorted(listener.upper() for listener in ours.listeners) == theirs["listeners"], ours
        for version in range(ours.min_version, highest + 1):
            assert request_header_version(ours.key, version) == theirs["requestHeaders"][version], ours
            assert response_header_version(ours.key, version) == theirs["responseHeaders"][version], ours


def test_every_message_version_and_field() -> None:
    with zipfile.ZipFile(newer_clients_jar()) as jar:
        paths = [PurePath(name) for name in jar.namelist() if name.startswith("common/message/")]
    removed = {
        f"{api.name}{suffix}"
        for api in API_BY_KEY.values()
        if api.max_version < 0
        for suffix in ("Request", "Response")
    }
    names = {path.stem for path in paths if path.suffix == ".json"} - removed
    ours = all_messages()
    assert names - ours.keys() == FILE_FORMATS
    assert len(names) > 190
    assert compare_schemas([ours[name] for name in sorted(names - FILE_FORMATS)], newer=True) > 600


def test_every_error() -> None:
    (response,) = query([{"op": "errors"}], newer=True)
    theirs = {code: (name, retriable) for code, name, retriable in response["errors"]}
    assert theirs == {each.value: (each.name, each.retriable) for each in ErrorCode}
