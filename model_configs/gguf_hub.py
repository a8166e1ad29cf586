"""A GGUF file in a Hub repository: found by the name of its quantisation, and of it only the header read.

"org/repo:Q4_K_M" is how llama.cpp (-hf) and Ollama name such a file. The list of the repository's files says which one is
meant; then ranged requests in growing pieces read the header, a few megabytes of a file of many gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from model_configs.gguf_header import Header, read_header
from model_configs.hub_http import COMMIT, Call
from model_configs.json_text import strict_json
from planner import errors
from planner.errors import InputError

_SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
#: What quantisations are called in file names, for the list in a message.
_QUANTISATION = re.compile(
    r"(?<![A-Z0-9])((?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|BF16|F16|F32|FP16|MXFP4(?:_MOE)?))(?![A-Z0-9])"
)
_NOT_MODELS = ("mmproj", "imatrix")
MAX_FILES = 10_000
MAX_PARTS = 200


@dataclass(frozen=True)
class HubGguf:
    """The headers of a model's files, in order. `label` is what chose them: a quantisation or a file name."""

    id: str
    commit: str
    label: str
    headers: tuple[Header, ...]


def read_files(call: Call, wanted: str) -> HubGguf:
    """The headers of the files that `wanted` names, at the commit that the call's revision is at.

    Errors: InputError when no file or more than one matches, naming what the repository has; NotFound, Gated, BadContent and
    the other HubErrors of a call.
    """
    url = f"{call.endpoint}/api/models/{call.model_id}/revision/{call.revision}?expand=siblings&expand=sha"
    about = strict_json(call.get(url, missing=errors.NotFound).body, "the Hub's answer")
    sha = about.get("sha") if isinstance(about, dict) else None
    if not isinstance(sha, str) or not COMMIT.fullmatch(sha):
        raise call.error(errors.NotAHub, reason="its answer about a model names no commit")
    names = choose(_file_names(about.get("siblings")), wanted, call.model_id)
    call.revision = sha  # all parts at one commit, whatever is pushed meanwhile

    def header(name: str) -> Header:
        def read(begin: int, end: int) -> bytes:
            return call.get(call.file_url(name), missing=errors.NoWeights, span=(begin, end)).body

        return read_header(read, name)

    return HubGguf(call.model_id, sha, wanted, tuple(header(name) for name in names))


def _file_names(siblings: Any) -> list[str]:
    found = siblings if isinstance(siblings, list) else []
    names = [entry.get("rfilename") for entry in found[:MAX_FILES] if isinstance(entry, dict)]
    # The name becomes a URL path, and whoever wrote the repository chose it.
    named = [name for name in names if isinstance(name, str) and name.lower().endswith(".gguf")]
    return [name for name in named if ".." not in name and not name.startswith("/") and len(name) < 256]


def choose(names: Iterable[str], wanted: str, repo: str) -> list[str]:
    """The files of one model: all parts in order where it is split. InputError when `wanted` does not single one out.

    `wanted` is a file's name, or a quantisation anywhere in the path, as a whole word ("Q4_K" is not "Q4_K_M").
    """
    models: dict[str, list[str]] = {}
    for name in names:
        if not any(word in name.lower() for word in _NOT_MODELS):
            split = _SPLIT.fullmatch(name)
            models.setdefault(f"{split[1]}.gguf" if split else name, []).append(name)
    exact = [model for model, files in models.items() if wanted in (model, *files) or f"{wanted}.gguf" == model]
    word = re.compile(rf"(?<![A-Z0-9_]){re.escape(wanted.upper())}(?![A-Z0-9_])")
    found = exact or [model for model in models if word.search(model.upper())]
    plain = [model for model in found if f"UD-{wanted.upper()}" not in model.upper()]
    found = plain or found  # "Q4_K_XL" means UD-Q4_K_XL only where there is no plain one
    if not found:
        has = sorted({match[1] for model in models for match in _QUANTISATION.finditer(model.upper())})
        listed = ", ".join(has[:30]) if has else "no GGUF model"
        raise InputError(f"{repo} has no GGUF file for {wanted!r}; it has {listed}", field="model", found=tuple(has))
    if len(found) > 1:
        raise InputError(
            f"{repo} has {len(found)} GGUF models for {wanted!r}: {', '.join(sorted(found)[:8])}; name one of the files",
            field="model", found=tuple(sorted(found)),
        )  # fmt: skip
    files = sorted(models[found[0]])
    split = _SPLIT.fullmatch(files[0])
    if split and (len(files) != int(split[3]) or len(files) > MAX_PARTS):
        raise InputError(f"{repo} has {len(files)} of the {int(split[3])} files of {found[0]}", field="model")
    return files
