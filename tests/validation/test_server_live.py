"""A real llama.cpp server, started with tiny GGUF files: what it says, and what its log prints, against the planner exactly.

The server is that of requirements-live.txt in an environment of its own (scripts/live_server.sh, which `make test` and
`make live` run). Where it is missing these tests are skipped with the reason, unless REQUIRE_LIVE=1, which makes that a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import model_configs
import planner
from planner.model import Model
from planner.units import MIB
from tests.validation import tiny_gguf
from validation import logs, server

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("LIVE_PYTHON") or ROOT / ".venv-live/bin/python")
ENGINE: Any = planner.engine("llama.cpp")


@dataclass(frozen=True)
class Case:
    """A model, how the server is started (llama.cpp's own parameters), and the same in the planner's settings."""

    model: str
    server: dict[str, Any]
    settings: dict[str, Any]

    def __str__(self) -> str:
        return "-".join([self.model, *(f"{key}={value}" for key, value in self.server.items())])


#: llama-server's own default is four slots that share the cells (n_parallel -1); one slot unless asked otherwise here.
CASES = [
    Case("llama", {}, {"n_ctx": 0, "n_seq_max": 1}),
    Case("llama", {"n_ctx": 3000}, {"n_ctx": 3000, "n_seq_max": 1}),
    Case("llama", {"n_ctx": 3000, "n_parallel": 3}, {"n_ctx": 3000, "n_seq_max": 3}),
    Case("llama", {"n_ctx": 3000, "n_parallel": -1}, {"n_ctx": 3000}),
    Case("llama", {"n_ctx": 100, "n_parallel": 8}, {"n_ctx": 100, "n_seq_max": 8}),
    Case("llama", {"n_ctx": 20000, "n_parallel": 2}, {"n_ctx": 20000, "n_seq_max": 2}),
    Case("llama", {"n_ctx": 4096, "cache_type_k": "q8_0", "cache_type_v": "q8_0"},
         {"n_ctx": 4096, "n_seq_max": 1, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
    Case("llama", {"n_ctx": 4096, "n_parallel": 2, "cache_type_k": "q4_0", "cache_type_v": "q5_1"},
         {"n_ctx": 4096, "n_seq_max": 2, "cache_type_k": "q4_0", "cache_type_v": "q5_1"}),
    Case("gemma3", {}, {"n_ctx": 0, "n_seq_max": 1}),
    Case("gemma3", {"n_ctx": 3000, "n_parallel": 2}, {"n_ctx": 3000, "n_seq_max": 2}),
    Case("gemma3", {"n_ctx": 8192, "n_parallel": 4, "kv_unified": True}, {"n_ctx": 8192, "n_seq_max": 4, "kv_unified": True}),
    Case("gemma3", {"n_ctx": 8192, "n_ubatch": 1024}, {"n_ctx": 8192, "n_seq_max": 1, "n_ubatch": 1024}),
    Case("gemma3", {"n_ctx": 8192, "swa_full": True}, {"n_ctx": 8192, "n_seq_max": 1, "swa_full": True}),
    Case("gemma3", {"n_ctx": 8192, "n_parallel": 2, "cache_type_k": "q8_0", "cache_type_v": "q8_0"},
         {"n_ctx": 8192, "n_seq_max": 2, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
    Case("lfm2", {"n_ctx": 4096, "n_parallel": 4}, {"n_ctx": 4096, "n_seq_max": 4}),
    Case("lfm2", {"n_ctx": 4096, "n_parallel": -1}, {"n_ctx": 4096}),
    Case("mamba", {"n_ctx": 2048, "n_parallel": 3}, {"n_ctx": 2048, "n_seq_max": 3}),
    Case("deepseek2", {"n_ctx": 4096, "n_parallel": 2}, {"n_ctx": 4096, "n_seq_max": 2}),
    Case("deepseek2", {"n_ctx": 4096, "cache_type_k": "q8_0", "cache_type_v": "q8_0"},
         {"n_ctx": 4096, "n_seq_max": 1, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of the live server's environment."""
    if not PYTHON.exists():
        reason = "the llama.cpp server is not installed: run scripts/live_server.sh"
        if os.environ.get("REQUIRE_LIVE") == "1":
            pytest.fail(f"REQUIRE_LIVE=1, and {reason}")
        pytest.skip(reason)
    return PYTHON


@contextlib.contextmanager
def running(python: Path, model: Path, parameters: dict[str, Any], log: Path) -> Iterator[str]:
    """The address of a server that is ready; its log is in `log`."""
    launcher = Path(__file__).with_name("live_server.py")
    command = [str(python), str(launcher), str(model), json.dumps(parameters)]
    said = log.with_suffix(".address")
    with log.open("wb") as errors, said.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors)
        try:
            yield _address(process, said, log)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _address(process: subprocess.Popen[bytes], said: Path, log: Path) -> str:
    for _ in range(600):
        found = re.fullmatch(r"(http://\S+)\n", said.read_text())
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: make(folder / f"{name}.gguf") for name, make in tiny_gguf.MODELS.items()}


#: "size = 2.25 MiB (1536 cells, 3 layers, 2/2 seqs), K (f16): 1.12 MiB, V (f16): 1.12 MiB", one line a pool; the pool of
#: recurrent states prints R, S and P instead.
POOL = re.compile(r"size = +[\d.]+ MiB \( *(\d+) cells, +(\d+) layers, +(\d+)(?:/(\d+))? seqs[^)]*\), ([^\n]*)")
PART = re.compile(r"([KVRSP]) \((\w+)\): +([\d.]+) MiB")


def cells(log: str) -> Counter[int]:
    """Layers by the cells that each of them has, all streams together, over the pools of keys and values."""
    found: Counter[int] = Counter()
    for each, layers, _, streams, parts in POOL.findall(log):
        if parts.startswith("K"):
            found[int(each) * int(streams)] += int(layers)
    return found


def printed(log: str) -> dict[str, list[float]]:
    """MiB of each pool of the start's log: keys, values, and the three parts of recurrent states."""
    parts = [part for pool in POOL.findall(log) for part in PART.findall(pool[4])]
    return {kind: [float(size) for letter, _, size in parts if letter in letters]
            for kind, letters in (("K", "K"), ("V", "V"), ("state", "RSP"))}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_memory_slots_and_context(
    case: Case, python: Path, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log's cells of every pool are ours, and its K, V and state sizes within their two digits, read here and by
    validation.logs; /props and /slots say our context of a slot, /v1/models the file's parameters and bytes."""
    model = model_configs.read(models[case.model])
    ours = ENGINE.cache_bytes(model, ENGINE.Settings(front_end="server", **case.settings))
    with running(python, models[case.model], case.server, tmp_path / "log") as url:
        told = server.server_llama_cpp.read(_client(url))
        said = [f"--set={key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in case.settings.items()]
        status = server.main([url, "--json", *said])
        report = json.loads(capsys.readouterr().out)
    assert told is not None
    assert status == 0, report["lines"]
    assert told.figures["total_slots"] == ours.requests
    assert told.figures["n_ctx"] == min(ours.tokens, tiny_gguf.TRAINED)
    assert told.figures["model_bytes"] == model.weight_bytes
    assert told.figures["n_params"] == model.params
    text = (tmp_path / "log").read_text(errors="replace")
    parts = [part for layer in ours.layers for part in layer.parts if part.kind != "state"]
    assert cells(text) == Counter(part.positions for part in parts)
    sizes = printed(text)
    for kind, size in (("K", ours.k_bytes), ("V", ours.v_bytes), ("state", ours.state_bytes)):
        slack = 0.005 * len(sizes[kind]) + 1e-9  # each pool is rounded on its own
        assert sum(sizes[kind]) == pytest.approx(size / MIB, abs=slack), kind
    assert ours.total_bytes > 0.02 * MIB  # what is compared is more than rounding
    explained(text, model)


def explained(text: str, model: Model) -> None:
    """The log as a person pastes it says the same. Its tables in whole MiB are no figures for files as small as these."""
    log = logs.read(text)
    assert log.engine == "llama.cpp"
    lines = [line for line in logs.explain(log, model).lines if "table" not in line.name]
    assert any(line.name in ("kv_bytes", "non_swa_kv_bytes", "state_bytes") for line in lines)
    assert all(line.agrees for line in lines), [line for line in lines if not line.agrees]


def _client(url: str) -> server.Client:
    target = server.target_of(url)
    return server.Client(target, server.resolve(target, allow_remote=False), 30.0)


def test_as_a_person_runs_it(
    python: Path, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing but the address: the engine is recognised and the model read from the path that the server names; after a
    request /metrics says the longest sequence. A context that was not asked for differs, and the first line says so."""
    with running(python, models["llama"], {"n_ctx": 1024}, tmp_path / "log") as url:
        body = json.dumps({"prompt": [5, 6, 7, 8, 9], "n_predict": 4, "cache_prompt": False}).encode()
        request = urllib.request.Request(f"{url}/completion", body, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        assert opener.open(request, timeout=60).status == 200
        assert server.main([url]) == 0
        text = capsys.readouterr().out
        assert text.startswith("llama.cpp serves ")
        assert re.search(r"^n_ctx +1,024 +1,024 +agrees", text, re.MULTILINE)
        assert re.search(r"^n_tokens_max +\d+ +1,024 +agrees", text, re.MULTILINE)
        assert server.main([url, "--set", "n_ctx=4096"]) == 1
        assert re.search(r"^n_ctx +1,024 +4,096 +DIFFERS", capsys.readouterr().out, re.MULTILINE)


def test_a_key_that_a_real_server_asks_for(
    python: Path, models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(python, models["llama"], {"n_ctx": 1024, "api_keys": ["sk-live"]}, tmp_path / "log") as url:
        assert server.main([url]) == 3
        assert "--api-key-env" in capsys.readouterr().err
        monkeypatch.setenv("LIVE_SERVERS_KEY", "sk-live")
        assert server.main([url, "--api-key-env", "LIVE_SERVERS_KEY"]) == 0
    assert "sk-live" not in "".join(capsys.readouterr())
