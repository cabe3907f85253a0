"""Our schema tables and generated codecs, compared with those in Apache Kafka's jars."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from codegen.notation import Field, MessageSpec, StructSpec, Versions
from ruslo.protocol.apis import API_BY_KEY, API_BY_NAME, KAFKA_4_4_VERSIONS
from ruslo.protocol.headers import request_header_version, response_header_version
from tests.support.protocol.values import (
    ValueMaker,
    all_messages,
    first_newer_version,
    kafka_4_3_versions,
    message_class,
    message_versions,
    struct_class,
    to_json,
    versions_of,
)
from tests.support.tools.kafka_jars import newer_clients_jar, support_java_command

pytestmark = pytest.mark.usefixtures("needs_java")

RANDOM_VALUES = 6
"""The number of random values for each version of a message, in addition to defaults and nulls."""

NULL_RECORDS = {("FetchSnapshotResponse", "PartitionSnapshot"), ("ShareFetchResponse", "PartitionData")}


def query(requests: Sequence[dict[str, Any]], *, newer: bool = False) -> list[dict[str, Any]]:
    """Send all inputs to one Java process, with the messages of Apache Kafka 4.3 or of 4.4 (``newer``)."""
    command = support_java_command("MessagesOracle", first=newer_clients_jar() if newer else None)
    text = "".join(json.dumps(request) + "\n" for request in requests)
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    responses = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(responses) == len(requests)
    return responses


def changed_in_4_4(message: MessageSpec) -> bool:
    """Whether Apache Kafka 4.4 added a version of the message: all its versions are compared with 4.4."""
    return first_newer_version(message) in versions_of(message)


def test_every_message_and_version_has_kafkas_bytes() -> None:
    unchanged = (each for each in message_versions() if not changed_in_4_4(each[0]))
    assert _compare_bytes(unchanged, newer=False) > 5000


def test_messages_that_kafka_4_4_changed_have_its_bytes() -> None:
    changed = (each for each in message_versions() if changed_in_4_4(each[0]))
    assert _compare_bytes(changed, newer=True) == 2 * (6 + 7 + 4 + 2 + 2 + 1 + 1) * (2 + RANDOM_VALUES)
    (response,) = query([{"op": "apis"}], newer=True)
    highest = {api["key"]: api["highestStable"] for api in response["apis"]}
    for name, version in KAFKA_4_4_VERSIONS.items():
        assert highest[API_BY_NAME[name].key] == API_BY_NAME[name].max_version == version


def _compare_bytes(versions: Iterable[tuple[MessageSpec, int]], *, newer: bool) -> int:
    requests: list[dict[str, Any]] = []
    expected: list[tuple[str, dict[str, Any]]] = []
    for message, version in versions:
        message_type = message_class(message.name)
        maker = ValueMaker(message, version, random.Random(f"{message.name} {version}"), unknown_tags=False)
        values = [message_type(), maker.nulls(), *(maker.random() for _ in range(RANDOM_VALUES))]
        for value in values:
            encoded = value.to_bytes(version)
            about = {"name": message.name, "version": version}
            request = to_json(message, value, version, complete=True)
            requests.append({"op": "encode", **about, "json": request})
            requests.append({"op": "decode", **about, "hex": encoded.hex()})
            decoded = message_type.from_bytes(encoded, version)
            expected.append((encoded.hex(), to_json(message, decoded, version, complete=False)))
    responses = query(requests, newer=newer)
    for number, (encoded_hex, as_json) in enumerate(expected):
        about = {key: requests[2 * number][key] for key in ("name", "version")}
        encoded_response, decoded_response = responses[2 * number], responses[2 * number + 1]
        assert encoded_response == {"hex": encoded_hex}, about
        assert decoded_response == {"hex": encoded_hex, "json": as_json}, about
    return len(expected)


def test_unknown_tagged_fields_survive_kafka() -> None:
    requests = []
    for message, version in kafka_4_3_versions():
        if version >= message.flexible_from:
            maker = ValueMaker(message, version, random.Random(f"{message.name} {version}"))
            about = {"op": "decode", "name": message.name, "version": version}
            requests.append({**about, "hex": maker.random().to_bytes(version).hex()})
    assert len(requests) > 300
    for request, response in zip(requests, query(requests), strict=True):
        assert response.get("hex") == request["hex"], (request["name"], request["version"], response)


def test_new_structs_have_the_defaults_of_kafka() -> None:
    pairs = list(kafka_4_3_versions())
    responses = query(
        [{"op": "defaults", "name": message.name, "version": version} for message, version in pairs]
    )
    compared = 0
    for (message, version), response in zip(pairs, responses, strict=True):
        assert response["structs"].pop("") == message_class(message.name)().to_bytes(version).hex(), (
            message.name
        )
        for name, theirs in response["structs"].items():
            if version not in message.structs[name].possible:
                continue
            if theirs is None:
                # Records that must not be null have null as their default in Kafka; ours is empty.
                assert (message.name, name) in NULL_RECORDS
                continue
            out = bytearray()
            struct_class(message, name)()._write(out, version)
            assert out.hex() == theirs, (message.name, name, version)
            compared += 1
    assert compared > 900


@pytest.mark.parametrize("newer", [False, True], ids=["4.3", "4.4"])
def test_schema_table_is_kafkas(newer: bool) -> None:
    messages = [message for message in all_messages().values() if changed_in_4_4(message) == newer]
    assert compare_schemas(messages, newer=newer) == sum(len(versions_of(message)) for message in messages)


def compare_schemas(messages: Sequence[MessageSpec], *, newer: bool) -> int:
    """Compare the fields of each message in each version; returns how many versions those are."""
    responses = query([{"op": "schema", "name": message.name} for message in messages], newer=newer)
    compared = 0
    for message, response in zip(messages, responses, strict=True):
        assert "error" not in response, (message.name, response)
        assert set(response["versions"]) == {str(version) for version in versions_of(message)}, message.name
        for version in versions_of(message):
            fields = _without_underscores(response["versions"][str(version)])
            assert fields == _describe(message, message.root, version), (message.name, version)
            compared += 1
    return compared


def test_api_table_is_kafkas() -> None:
    (response,) = query([{"op": "apis"}])
    new = {API_BY_NAME[name].key for name, version in KAFKA_4_4_VERSIONS.items() if version == 0}
    assert {api["key"] for api in response["apis"]} == API_BY_KEY.keys() - new
    for theirs in response["apis"]:
        ours = API_BY_KEY[theirs["key"]]
        assert ours.name.lower() == theirs["name"].replace("_", "").lower()
        newer = ours.name in KAFKA_4_4_VERSIONS
        assert ours.max_version - newer == theirs["highestStable"], ours
        assert ours.min_version == theirs["lowest"], ours
        for message in (message_class(f"{ours.name}Request"), message_class(f"{ours.name}Response")):
            highest = message.MAX_VERSION - newer
            assert (theirs["lowest"], theirs["highest"]) == (message.MIN_VERSION, highest), ours
        assert ours.forwardable == theirs["forwardable"], ours
        assert ours.cluster_action == theirs["clusterAction"], ours
        assert sorted(listener.upper() for listener in ours.listeners) == theirs["listeners"], ours
        if ours.max_version < 0:
            continue
        for version in range(ours.min_version, highest + 1):
            assert request_header_version(ours.key, version) == theirs["requestHeaders"][version], ours
            assert response_header_version(ours.key, version) == theirs["responseHeaders"][version], ours


def _without_underscores(fields: list[list[Any]]) -> list[list[Any]]:
    """Kafka splits words differently around digits and capitals; underscores are not compared."""
    return [[name.replace("_", ""), text, *map(_without_underscores, below)] for name, text, *below in fields]


def _describe(message: MessageSpec, struct: StructSpec, version: int) -> list[list[Any]]:
    """Kafka's Schema objects of one version, in the form of our table."""
    present = [field for field in struct.fields if version in field.versions]
    plain = [field for field in present if field.tag is None]
    tagged = sorted((field for field in present if field.tag is not None), key=lambda field: field.tag or 0)
    rows: list[list[Any]] = []
    for field in [*plain, *tagged]:
        text = _type_text(message, field, version)
        if field.tag is not None:
            text = f"tag {field.tag} {text}"
        row: list[Any] = [field.attribute.replace("_", ""), text]
        if field.struct is not None:
            row.append(_describe(message, message.structs[field.struct], version))
        rows.append(row)
    return rows


def _type_text(message: MessageSpec, field: Field, version: int) -> str:
    compact = version >= message.flexible_from and field.compact
    nullable = version in field.nullable
    if field.is_array:
        one = Field(field.name, field.element, field.versions, nullable=Versions(0, -1))
        array = "CompactArrayOf" if compact else "ArrayOf"
        return f"{'nullable ' if nullable else ''}{array} {_type_text(message, one, version)}"
    if field.is_struct:
        return "nullable struct" if nullable else "struct"
    if field.type in ("string", "bytes", "records"):
        return f"{'COMPACT_' if compact else ''}{'NULLABLE_' if nullable else ''}{field.type.upper()}"
    return {"bool": "BOOLEAN"}.get(field.type, field.type.upper())
