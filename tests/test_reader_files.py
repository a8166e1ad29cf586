"""Which files, folders, paths and other sources are a config, and what is said of those that are none?"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import model_configs
from planner import InputError, PlannerError
from tests.configs import LLAMA, LONGEST_MESSAGE, attempt, read

GOOD = json.dumps(LLAMA)


def deeply_nested(depth: int) -> str:
    return '{"model_type": "llama", "a": ' + '{"a": ' * depth + "1" + "}" * depth + "}"


@pytest.mark.parametrize(
    ("content", "good"),
    [
        (GOOD.encode(), True),
        (b"\xef\xbb\xbf" + GOOD.encode(), True),
        (GOOD.encode() + b"\n\n  ", True),
        (b'{"num_hidden_layers": 99, ' + GOOD.encode()[1:], True),
        (json.dumps({**LLAMA, "x": 1}).replace('"x": 1', '"time_step_limit": [0.0, -Infinity, Infinity]').encode(), True),
        (b"", False),
        (b"   ", False),
        (b"null", False),
        (b"[" + GOOD.encode() + b"]", False),
        (b'"llama"', False),
        (b"5", False),
        (GOOD.encode()[:-1], False),
        (GOOD.encode() + b"}", False),
        (GOOD.encode().replace(b"}", b', "rope_theta": NaN}'), False),
        (GOOD.replace("}", ', "note": "caf\u00e9"}').encode("latin-1"), False),
        (GOOD.encode("utf-16"), False),
        (b"\x00\x01\x02", False),
        (b"<html>Repository not found</html>", False),
        (deeply_nested(100_000).encode(), False),
        (GOOD.encode().replace(b"}", b', "n": ' + b"9" * 5000 + b"}"), False),
        (GOOD.encode().replace(b"}", b', "pad": "' + b"x" * (5 * 1024 * 1024) + b'"}'), False),
    ],
    ids=[
        "plain", "bom", "trailing-blank", "duplicate-keys", "infinity", "empty", "blank", "null", "array", "string", "number",
        "cut-short", "one-brace-too-many", "nan", "latin-1", "utf-16", "binary", "html", "deeply-nested", "endless-number",
        "five-mebibytes",
    ],
)  # fmt: skip
def test_content_of_a_file(tmp_path: Path, content: bytes, good: bool) -> None:
    """A config.json of any content is a Model, or a PlannerError of one short line that names the file."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    if good:
        assert model_configs.read(path).layers == read(LLAMA).layers
        assert model_configs.read(str(path)).layers == read(LLAMA).layers
        assert model_configs.read(tmp_path).source.kind == "path"
        return
    with pytest.raises(PlannerError) as caught:
        model_configs.read(path)
    assert "config.json" in str(caught.value)
    assert len(str(caught.value)) < LONGEST_MESSAGE


@pytest.mark.parametrize("depth", [50, 500, 900, 5_000])
def test_nesting_that_json_still_reads(tmp_path: Path, depth: int) -> None:
    """Nesting that the JSON reader accepts does not overflow anything behind it."""
    path = tmp_path / "config.json"
    path.write_text(deeply_nested(depth), encoding="utf-8")
    found = attempt(path)
    assert "config.json" in str(found) if isinstance(found, PlannerError) else found.kinds == {"full": 32}


def test_folder_without_a_config(tmp_path: Path) -> None:
    """A folder is read by its config.json; without one the error names that file."""
    with pytest.raises(InputError, match=r"config\.json"):
        model_configs.read(tmp_path)
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputError, match=r"config\.json"):
        model_configs.read(tmp_path)


def test_path_that_does_not_exist(tmp_path: Path) -> None:
    """A path is never taken for a Hub id: what looks like a path and is not there is an InputError, without a network."""
    missing = (
        tmp_path / "no" / "config.json",
        f"{tmp_path}/no",
        "./no-folder",
        "../no.json",
        "no-such.json",
        "~/no-such",
    )
    for source in missing:
        with pytest.raises(InputError):
            model_configs.read(source)


def test_path_that_may_not_be_read(tmp_path: Path) -> None:
    """A file without read permission is an InputError (nothing to see where the user is root)."""
    path = tmp_path / "config.json"
    path.write_text(GOOD, encoding="utf-8")
    path.chmod(0)
    found = attempt(path)
    if isinstance(found, PlannerError):
        assert isinstance(found, InputError)
        assert "config.json" in str(found)
    else:
        assert os.geteuid() == 0
        assert len(found.layers) == 4


def test_path_with_a_zero_byte_or_of_any_length() -> None:
    """Text that no file system takes as a path is an InputError or another PlannerError."""
    for source in ("/a\0b", "./a\0b.json", "/" + "x" * 100_000, "./" + "x/" * 10_000):
        with pytest.raises(PlannerError):
            model_configs.read(source)


@pytest.mark.parametrize("source", [None, 5, b"llama", [], ["x"], "", "   ", 1.5, object()], ids=repr)
def test_source_that_names_nothing(source: Any) -> None:
    """What is neither a name, a path nor a config is an InputError."""
    with pytest.raises(InputError):
        model_configs.read(source)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_pipe_is_not_a_config(tmp_path: Path) -> None:
    """A path that is no regular file is refused at once instead of being read for ever."""
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)
    found: list[BaseException] = []

    def attempt() -> None:
        try:
            model_configs.read(pipe)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(5)
    if thread.is_alive():
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        thread.join(5)
        pytest.fail("reading a pipe waits for a writer")
    assert isinstance(found[0], PlannerError)
