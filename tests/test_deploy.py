"""What the Dockerfile copies is enough to serve the page, with the headers of a public server and without torch."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COPIED = [words.split()[:-1] for words in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)]
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The address and the process of a server that has only what the image has."""
    folder = tmp_path_factory.mktemp("image")
    for name in (name for names in COPIED for name in names):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "serve.py", f"--server.port={port}", "--server.address=127.0.0.1"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            for _ in range(300):
                try:
                    OPENER.open(f"http://127.0.0.1:{port}/_stcore/health", timeout=2).close()
                    break
                except OSError:
                    assert process.poll() is None, (folder / "log").read_text()
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
    assert "Traceback" not in (folder / "log").read_text()


def test_the_health_check_is_the_dockerfiles_own(server: tuple[str, int]) -> None:
    """The URL that HEALTHCHECK asks for answers ok."""
    path = re.search(r"127\.0\.0\.1:8501(/[\w/]+)", DOCKERFILE)
    assert path
    with OPENER.open(server[0] + path[1], timeout=5) as answer:
        assert answer.read() == b"ok"


def test_every_answer_has_the_headers(server: tuple[str, int]) -> None:
    """The page and its parts say what may run in it and who may frame it."""
    for path in ("/", "/_stcore/health"):
        with OPENER.open(server[0] + path, timeout=5) as answer:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'self'" in policy
            assert "frame-ancestors 'self'" in policy
            assert "'unsafe-inline'" not in re.search("script-src[^;]*", policy)[0]  # type: ignore[index]
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_web_process_has_no_torch(server: tuple[str, int]) -> None:
    """No library of torch is mapped into the server, whatever is installed beside it."""
    maps = Path(f"/proc/{server[1]}/maps")
    if not maps.exists():
        pytest.skip("this system does not show a process's libraries under /proc")
    OPENER.open(server[0], timeout=5).close()
    text = maps.read_text()
    assert "libpython" in text or "python" in text
    assert not re.search(r"/torch/|/transformers/", text)


def test_the_image_does_not_run_as_root() -> None:
    lines = DOCKERFILE.splitlines()
    assert lines.index("USER planner") < next(i for i, line in enumerate(lines) if line.startswith("CMD "))
    assert "--uid 1000" in DOCKERFILE


def test_the_builder_gets_what_is_copied() -> None:
    """.dockerignore lets through exactly the Dockerfile's sources."""
    let = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert let == {name for names in COPIED for name in names}


def test_the_head_for_a_space() -> None:
    """The head in DEPLOY.md is YAML, and its port is the one that the image exposes."""
    head = re.search(r"```yaml\n---\n(.+?)---\n```", (ROOT / "docs/DEPLOY.md").read_text(encoding="utf-8"), re.DOTALL)
    assert head
    found = yaml.safe_load(head[1])
    assert (found["sdk"], f"EXPOSE {found['app_port']}" in DOCKERFILE) == ("docker", True)
