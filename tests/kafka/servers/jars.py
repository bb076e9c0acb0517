"""The jars of Apache Kafka, fetched by Maven, and the Java that runs them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESOLVE_SECONDS_MAX = 600.0  # the first Maven run fetches some 45 MB
LOG_TAIL_LINES = 40


class BrokerUnavailableError(Exception):
    """This machine cannot run the broker: no Java 17, no Maven, or the jars cannot be fetched."""


def kafka_version(pom: Path = HERE / "pom.xml") -> str:
    """Return the Apache Kafka version that the pom names."""
    found = ElementTree.parse(pom).getroot().findtext(".//{*}kafka.version")
    if not found:
        raise AssertionError(f"{pom} has no <kafka.version>")
    return found


def jars_folder() -> Path:
    """Return the cache folder of the jars: by Kafka version and by the pom's content."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    digest = hashlib.sha256((HERE / "pom.xml").read_bytes()).hexdigest()[:8]
    return Path(cache) / "neardup" / f"kafka-{kafka_version()}-{digest}"


def resolve_jars() -> Path:
    """Return the folder with the broker's jars; Maven fetches them if the cache lacks them.

    A run fills the folder under another name and then renames it, so the folder is complete or absent.
    """
    folder = jars_folder()
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerUnavailableError(f"mvn is not on the path and {folder} does not exist: install Maven")
    folder.parent.mkdir(parents=True, exist_ok=True)
    filling = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        command = [maven, "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={filling}"]
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RESOLVE_SECONDS_MAX
        )
        if run.returncode != 0:
            raise BrokerUnavailableError(f"Maven could not fetch Kafka:\n{tail(run.stdout + run.stderr)}")
        try:
            filling.rename(folder)
        except OSError:
            if not folder.is_dir():  # another run filled the same cache first
                raise
    except subprocess.TimeoutExpired as error:
        raise BrokerUnavailableError(f"Maven did not fetch Kafka in {RESOLVE_SECONDS_MAX:.0f} s") from error
    finally:
        shutil.rmtree(filling, ignore_errors=True)
    return folder


def find_java() -> str:
    """Return the path of Java: from JAVA_HOME if set, else from PATH."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        raise BrokerUnavailableError("java is not on the path (nor in JAVA_HOME): install Java 17 or newer")
    return java


def class_archive(java: str) -> Path:
    """Return where the classes that a broker loads are kept, parsed, for a version of Java: a third less processor
    time of a start. Java itself refuses an archive that does not fit it."""
    installed, folder = Path(java).resolve(), resolve_jars()
    key = hashlib.sha256(f"{installed} {installed.stat().st_mtime_ns}".encode()).hexdigest()[:8]
    return folder.with_name(f"{folder.name}-{key}.jsa")


def tail(text: str, lines_max: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.splitlines()[-lines_max:])
