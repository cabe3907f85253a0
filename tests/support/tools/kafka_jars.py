"""The jars of Apache Kafka 4.3.0 for tests and benchmarks, and Java commands that use them.

Maven downloads the jars once, into a cache folder outside the repository (RUSLO_KAFKA_HOME names another).
Beside them lies a class archive (class data sharing of the JVM): a broker that uses it starts with 1.6 s of
CPU time instead of 2.8 s.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from tests.support.network.ports import free_port

KAFKA_VERSION = "4.3.0"
NEWER_CLIENTS_VERSION = "4.4.0"
SUPPORT_DIR = Path(__file__).resolve().parents[1]
POM = SUPPORT_DIR / "apache-kafka.pom.xml"
LOG4J_CONFIG = SUPPORT_DIR / "log4j2.properties"

# The options of Apache Kafka's own start script, for benchmarks; tests use less memory and start faster.
BENCH_JAVA_OPTIONS = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
SHARED_CLASSES = "-Xshare:auto"
_PLAIN_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
TEST_JAVA_OPTIONS = ("-Xmx384m", "-Xms64m", *_PLAIN_JAVA_OPTIONS, SHARED_CLASSES)
TOOL_JAVA_OPTIONS = ("-Xmx256m", *_PLAIN_JAVA_OPTIONS, SHARED_CLASSES)


def kafka_home() -> Path:
    """The cache folder: jars in `libs-…/`, compiled test helpers in `classes/`."""
    configured = os.environ.get("RUSLO_KAFKA_HOME")
    return Path(configured) if configured else Path.home() / ".cache" / "ruslo" / f"kafka-{KAFKA_VERSION}"


def _jars() -> Path:
    """Named after the pom: a working copy with other jars has another folder."""
    return kafka_home() / f"libs-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"


def kafka_classpath() -> str:
    """The class path of Apache Kafka's broker, clients and tools; downloads them on the first call."""
    libs = _jars()
    make_once(libs, lambda folder: download_jars(POM, folder))
    return f"{libs}/*"


def newer_clients_jar() -> Path:
    """The clients of a newer Apache Kafka; downloads them on the first call."""
    folder = kafka_home() / f"clients-{NEWER_CLIENTS_VERSION}"
    make_once(folder, _download_newer_clients)
    return folder / f"kafka-clients-{NEWER_CLIENTS_VERSION}.jar"


def class_archive() -> Path:
    """The classes of a broker and of its tools in the form in which this JVM loads them fastest."""
    java = Path(shutil.which("java") or "java").resolve()
    jvm = hashlib.sha256(f"{java} {java.stat().st_mtime}".encode()).hexdigest()[:8]
    archive = _jars().with_suffix(f".{jvm}.jsa")
    make_once(archive, _archive_classes)
    return archive


def make_once(path: Path, make: Callable[[Path], None]) -> None:
    """Make a file or folder of the cache unless it exists; parallel test processes wait for the first."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            partial = path.with_name(f"{path.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            make(partial)
            partial.rename(path)


def download_jars(pom: Path, libs: Path) -> None:
    """Let Maven copy the dependencies of `pom` to the folder `libs`."""
    # Maven writes next to the pom it is given, so it gets a copy outside the repository.
    copy = libs.with_name(f"{libs.name}.pom.xml")
    shutil.copyfile(pom, copy)
    _run_maven(pom.name, "-f", str(copy), "dependency:copy-dependencies", f"-DoutputDirectory={libs}")


def _download_newer_clients(folder: Path) -> None:
    artifact = f"org.apache.kafka:kafka-clients:{NEWER_CLIENTS_VERSION}"
    _run_maven(artifact, "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")


def _run_maven(wanted: str, *arguments: str) -> None:
    # Without a pom of its own, a command in the repository would look for one there.
    with tempfile.TemporaryDirectory() as elsewhere:
        command = ["mvn", "-q", "-B", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=elsewhere)
    if result.returncode != 0:
        raise RuntimeError(
            f"Maven could not download the jars of {wanted}. Check the connection to Maven Central.\n"
            f"{result.stdout[-2000:]}{result.stderr[-2000:]}"
        )


def _archive_classes(archive: Path) -> None:
    """Write the archive of the classes that a broker and two tools load."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        properties = directory / "server.properties"
        address, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={controller}\n"
            f"listeners=PLAINTEXT://{address},CONTROLLER://{controller}\nlog.dirs={directory / 'data'}\n"
        )

        def listing(main_class: str, *arguments: str) -> list[str]:
            options = (*_PLAIN_JAVA_OPTIONS, f"-XX:DumpLoadedClassList={directory / main_class}.classes")
            return java_command(main_class, *arguments, java_options=options, log_level="ERROR")

        def run(command: list[str]) -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)

        formatting = ("format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(properties), "--standalone")
        run(listing("kafka.tools.StorageTool", *formatting))
        with subprocess.Popen(listing("kafka.Kafka", str(properties)), stdout=subprocess.DEVNULL) as broker:
            groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
            try:
                run(listing(groups, "--bootstrap-server", address, "--list"))
            finally:
                broker.terminate()
        merged = directory / "classes"
        lists = [path.read_text().splitlines() for path in directory.glob("*.classes")]
        merged.write_text("\n".join(dict.fromkeys(chain.from_iterable(lists))))
        dump = ("-Xshare:dump", f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={archive}")
        run(["java", *_PLAIN_JAVA_OPTIONS, *dump, "-Xlog:disable", "-cp", kafka_classpath()])


def java_command(
    main_class: str,
    *arguments: str,
    java_options: Sequence[str] = TOOL_JAVA_OPTIONS,
    classes: Path | None = None,
    log_level: str = "WARN",
    first: Path | None = None,
) -> list[str]:
    """The command line that runs a class of Apache Kafka, or of ours compiled to `classes`.

    The classes of the jar ``first`` replace those of Apache Kafka.
    """
    # The archive is valid for class paths that begin with the one it was made for.
    has_archive = SHARED_CLASSES in java_options and first is None
    classpath = ":".join(str(each) for each in (first, kafka_classpath(), classes) if each is not None)
    archive = (f"-XX:SharedArchiveFile={class_archive()}",) if has_archive else ()
    return [
        "java",
        *java_options,
        *archive,
        f"-Dlog4j2.configurationFile={LOG4J_CONFIG}",
        f"-Druslo.log.level={log_level}",
        "-cp",
        classpath,
        main_class,
        *arguments,
    ]


def support_java_command(
    name: str,
    *arguments: str,
    java_options: Sequence[str] = TOOL_JAVA_OPTIONS,
    log_level: str = "WARN",
    first: Path | None = None,
) -> list[str]:
    """The command line that runs a class of `tests/support/java`."""
    classes = compile_java(SUPPORT_DIR / "java" / f"{name}.java")
    return java_command(
        name, *arguments, java_options=java_options, classes=classes, log_level=log_level, first=first
    )


def compile_java(source: Path) -> Path:
    """Compile a Java source against Kafka's jars; the classes folder is reused while it stays the same."""
    digest = hashlib.sha256(KAFKA_VERSION.encode() + source.name.encode() + b"\0" + source.read_bytes())
    classes = kafka_home() / "classes" / digest.hexdigest()[:16]

    make_once(classes, lambda folder: compile_sources([source], kafka_classpath(), folder))
    return classes


def compile_sources(sources: Sequence[Path], classpath: str, classes: Path) -> None:
    """Compile Java sources to the folder `classes`."""
    command = ["javac", "-nowarn", "-cp", classpath, "-d", str(classes), *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        raise RuntimeError(f"javac refused {', '.join(source.name for source in sources)}:\n{result.stderr}")
