"""Apache Kafka 4.3.0 for tests and benchmarks: its jars, its command-line classes, a real broker.

The jars come from Maven once, into a cache folder outside the repository (RUSLO_KAFKA_HOME names another).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from tests.support.brokers.node import Node

KAFKA_VERSION = "4.3.0"
SUPPORT_DIR = Path(__file__).resolve().parents[1]
POM = SUPPORT_DIR / "apache-kafka.pom.xml"
LOG4J_CONFIG = SUPPORT_DIR / "log4j2.properties"

# The options of Apache Kafka's own start script, for benchmarks; tests use less memory.
BENCH_JAVA_OPTIONS = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
TEST_JAVA_OPTIONS = ("-Xmx384m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
TOOL_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def kafka_home() -> Path:
    """The cache folder: jars in `libs-…/`, compiled test helpers in `classes/`."""
    configured = os.environ.get("RUSLO_KAFKA_HOME")
    return Path(configured) if configured else Path.home() / ".cache" / "ruslo" / f"kafka-{KAFKA_VERSION}"


def _jars() -> Path:
    """Named after the pom: a working copy with other jars has another folder."""
    return kafka_home() / f"libs-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"


def java_available() -> bool:
    """Whether a Java runtime and Maven, or cached jars, are available."""
    return shutil.which("java") is not None and (_jars().is_dir() or shutil.which("mvn") is not None)


def kafka_classpath() -> str:
    """The class path of Apache Kafka's broker, clients and tools; downloads them on the first call."""
    home = kafka_home()
    libs = _jars()
    if not libs.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with (home / "download.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes must not download at the same time
            if not libs.is_dir():
                _download_jars(home, libs)
    return f"{libs}/*"


def _download_jars(home: Path, libs: Path) -> None:
    partial = libs.with_name(f"{libs.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    # Maven writes next to the pom it is given, so it gets a copy outside the repository.
    pom = home / "pom.xml"
    shutil.copyfile(POM, pom)
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={partial}",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if result.returncode != 0:
        raise RuntimeError(
            f"Maven could not download Apache Kafka {KAFKA_VERSION}. Check the connection to Maven Central.\n"
            f"{result.stdout[-2000:]}{result.stderr[-2000:]}"
        )
    partial.rename(libs)


def java_command(
    main_class: str,
    *arguments: str,
    java_options: Sequence[str] = TOOL_JAVA_OPTIONS,
    classes: Path | None = None,
    log_level: str = "WARN",
) -> list[str]:
    """The command line that runs a class of Apache Kafka, or of ours compiled to `classes`."""
    classpath = kafka_classpath() if classes is None else f"{classes}:{kafka_classpath()}"
    return [
        "java",
        *java_options,
        f"-Dlog4j2.configurationFile={LOG4J_CONFIG}",
        f"-Druslo.log.level={log_level}",
        "-cp",
        classpath,
        main_class,
        *arguments,
    ]


def run_tool(
    main_class: str,
    *arguments: str,
    timeout: float = 60,
    stdin: str | None = None,
    classes: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command-line class to its end; the caller checks returncode, stdout and stderr."""
    command = java_command(main_class, *arguments, classes=classes)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, input=stdin)


def compile_java(source_files: Iterable[Path]) -> Path:
    """Compile Java sources against Kafka's jars; the classes folder is reused while they stay the same."""
    sources = sorted(source_files)
    digest = hashlib.sha256(KAFKA_VERSION.encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    classes = kafka_home() / "classes" / digest.hexdigest()[:16]
    if classes.is_dir():
        return classes
    classpath = kafka_classpath()
    partial = classes.with_name(f"{classes.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    command = ["javac", "-nowarn", "-cp", classpath, "-d", str(partial), *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        shutil.rmtree(partial)
        raise RuntimeError(f"javac refused {', '.join(source.name for source in sources)}:\n{result.stderr}")
    try:
        partial.rename(classes)
    except OSError:  # another process compiled the same sources first
        shutil.rmtree(partial)
    return classes


class ApacheKafka(Node):
    """A node of Apache Kafka; see Node for its files."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        *,
        data_dirs: Sequence[Path] | None = None,
        properties: Mapping[str, str] | None = None,
        quorum: Literal["standalone", "static"] = "standalone",
        cluster_id: str | None = None,
        node_id: int = 1,
        port: int | None = None,
        controller_port: int | None = None,
        java_options: Sequence[str] = TEST_JAVA_OPTIONS,
    ) -> None:
        super().__init__(
            directory,
            data_dirs=data_dirs,
            properties=properties,
            quorum=quorum,
            cluster_id=cluster_id,
            node_id=node_id,
            port=port,
            controller_port=controller_port,
        )
        self.java_options = tuple(java_options)

    def format(self) -> None:
        """Format the directories as `kafka-storage.sh format` does."""
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.properties_file)]
        if self.quorum == "standalone":
            arguments.append("--standalone")
        result = run_tool("kafka.tools.StorageTool", *arguments)
        if result.returncode != 0:
            raise RuntimeError(f"StorageTool format failed:\n{result.stdout}{result.stderr}")

    def serve_command(self) -> list[str]:
        options = self.java_options
        return java_command("kafka.Kafka", str(self.properties_file), java_options=options, log_level="INFO")
