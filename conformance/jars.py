"""The jars with Kafka's tests, and our classes that stand before Kafka's on the class path."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Literal

from tests.support.tools.kafka_jars import compile_sources, download_jars, kafka_home, make_once

Target = Literal["ruslo", "kafka"]

FOLDER = Path(__file__).resolve().parent
POM = FOLDER / "pom.xml"
JAVA = FOLDER / "java"
_LISTENER = JAVA / "ruslo" / "conformance" / "ResultListener.java"
# The console contains JUnit. Another version of it on the class path would be mixed with it.
_JARS_OF_JUNIT = (
    "junit-jupiter*.jar",
    "junit-platform-commons-*.jar",
    "junit-platform-engine-*.jar",
    "junit-platform-launcher-*.jar",
    "opentest4j*.jar",
)


def classpath(target: Target) -> str:
    """The class path of a JVM that runs the tests; downloads and compiles on the first call."""
    libs = kafka_home() / f"test-libs-{_digest([POM])}"
    make_once(libs, _download)
    jars = ":".join(str(jar) for jar in sorted(libs.glob("*.jar")))
    # Without our RaftClusterInvocationContext a test gets Kafka's own cluster.
    sources = [_LISTENER] if target == "kafka" else sorted(JAVA.rglob("*.java"))
    services = JAVA / "META-INF"
    inputs = [POM, *sources, *(path for path in services.rglob("*") if path.is_file())]
    classes = kafka_home() / "classes" / f"conformance-{target}-{_digest(inputs)}"

    def compile_to(folder: Path) -> None:
        compile_sources(sources, jars, folder)
        shutil.copytree(services, folder / "META-INF")

    make_once(classes, compile_to)
    return f"{classes}:{jars}"


def _download(libs: Path) -> None:
    download_jars(POM, libs)
    for pattern in _JARS_OF_JUNIT:
        for jar in libs.glob(pattern):
            jar.unlink()


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
