"""A model from a GGUF file: a local path, its metadata as a dict, or a file on the Hub of which only the header is read.

llama.cpp, Ollama and LM Studio run these files. What they cache follows from the metadata alone; the weights are summed
from the header's list of tensors, so they are exact for the very quantisation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model_configs.gguf_header import Header, TensorInfo, read_header
from model_configs.gguf_layers import build, contexts, hparams
from model_configs.gguf_special import FINISH
from model_configs.gguf_weights import weights_of
from model_configs.gguf_words import ARCHITECTURE, GgufWords, family_of
from planner.errors import BadContent, ConfigError, InputError, PlannerError, shown
from planner.model import Model, Source

__all__ = [
    "ARCHITECTURE", "describe_metadata", "is_metadata", "read_gguf", "read_gguf_bytes", "read_gguf_from_hub", "split_reference",
]  # fmt: skip

#: The view of the draft (MTP) context, which only files with draft layers have.
DRAFT_VIEW = "llama.cpp mtp"
_SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
_REFERENCE = re.compile(r"(?!.*\.\.)([\w.-]+/[\w.-]+):([\w.-]+(?:/[\w.-]+)*)", re.ASCII)


def is_metadata(content: Mapping[str, Any]) -> bool:
    """Whether a dict is GGUF metadata rather than a config.json's content."""
    return ARCHITECTURE in content


def split_reference(name: str) -> tuple[str, str] | None:
    """("org/repo", "Q4_K_M") of "org/repo:Q4_K_M"; None for a name without a quantisation."""
    match = _REFERENCE.fullmatch(name)
    return (match[1], match[2]) if match else None


def describe_metadata(
    metadata: Mapping[str, Any], source: Source, tensors: Sequence[TensorInfo] | None = None
) -> Model:
    """The model that a GGUF file's metadata describes, with exact weights where its tensors are known.

    `layers` is llama.cpp's reading, whose format this is; `config` keeps the metadata for the engine's own rules, and
    `engine_layers["llama.cpp mtp"]` the layers of the draft context where the file has any.
    Errors: UnsupportedArchitecture naming an architecture without a row, ConfigError for metadata that cannot be right,
    BadContent for tensors that cannot.
    """
    if not all(isinstance(key, str) for key in metadata):
        raise ConfigError("the keys of GGUF metadata must be words", field="config")
    arch, family = family_of(metadata)
    words = GgufWords(arch, metadata, {tensor.name for tensor in tensors} if tensors is not None else None)
    dimensions = hparams(family, words)
    layers = build(family, dimensions)
    if family.finish:
        layers = FINISH[family.finish](dimensions, layers)
    layers, draft = contexts(family, dimensions, layers)
    notes = ["This model keeps no cache between batches."] if family.cache == "none" else []
    return Model(
        name=source.name,
        model_type=arch,
        layers=layers,
        source=source,
        dtype="float16",  # what llama.cpp and Ollama cache in unless told otherwise
        max_context=words.number("context_length", 0) or None,
        hidden_size=words.number("embedding_length", 0),
        attention_heads=dimensions.heads[0],
        architecture=arch,
        weights=weights_of(tensors, dimensions.trunk, source.name) if tensors is not None else None,
        engine_layers={DRAFT_VIEW: draft} if draft else {},
        config=dict(metadata),
        notes=tuple(notes),
    )


def read_gguf(source: str | Path | Mapping[str, Any]) -> Model:
    """The model in a local GGUF file (all parts of a split one, found beside it), or in metadata given as a dict.

    Only the header is read. Errors: InputError for a path that is no file, ConfigError for a file that is no GGUF or is
    damaged, UnsupportedArchitecture.
    """
    if isinstance(source, Mapping):
        return describe_metadata(source, Source("dict", shown(source.get("general.name") or source.get(ARCHITECTURE)).strip("'")))
    path = Path(source).expanduser()
    match = _SPLIT.fullmatch(path.name)
    try:
        headers = [_local_header(part) for part in (_parts(path, match[1], int(match[3])) if match else [path])]
        return describe_headers(headers, Source("path", path.name))
    except BadContent as error:  # what is wrong with a local file is nothing of the Hub's
        raise ConfigError(error.message, field="model", **error.fields) from None


def read_gguf_bytes(data: bytes, name: str) -> Model:
    """The model whose file begins with `data`, its whole header at least; `name` is what messages call it.

    Errors: ConfigError for what is no GGUF or ends within the header, UnsupportedArchitecture.
    """
    try:
        return describe_headers([read_header(lambda begin, end: data[begin:end], name)], Source("path", name))
    except BadContent as error:
        raise ConfigError(error.message, field="model", **error.fields) from None


def describe_headers(headers: Sequence[Header], source: Source) -> Model:
    """The model whose files have these headers, the first of which carries the metadata."""
    first = headers[0]
    count = first.metadata.get("split.count", 1)
    if isinstance(count, int) and count not in (0, len(headers)):
        raise BadContent(f"{source.name} is one of {count} files, and {len(headers)} of them were read; all must be there")
    tensors = [tensor for header in headers for tensor in header.tensors]
    said = first.metadata.get("split.tensors.count")
    if len(headers) > 1 and isinstance(said, int) and said != len(tensors):
        raise BadContent(f"the files of {source.name} have {len(tensors)} tensors together, where {said} were announced")
    return describe_metadata(first.metadata, source, tensors)


def _parts(path: Path, stem: str, count: int) -> list[Path]:
    found = [path.with_name(f"{stem}-{i:05d}-of-{count:05d}.gguf") for i in range(1, count + 1)]
    missing = [part.name for part in found if not part.is_file()]
    if missing:
        raise InputError(f"{path.name} is part of a model in {count} files, and {missing[0]} is not beside it", field="model")
    return found


def _local_header(path: Path) -> Header:
    try:
        if not path.is_file():  # a device or a pipe could be read for ever
            raise InputError(f"{path} is not a file", field="model")
        with path.open("rb") as file:

            def read(begin: int, end: int) -> bytes:
                file.seek(begin)
                return file.read(end - begin)

            return read_header(read, path.name)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", field="model") from None


def read_gguf_from_hub(repo: str, wanted: str, revision: str | None = None, token: str | None = None) -> Model:
    """The model in the file of a Hub repository whose name says the quantisation `wanted` (or is `wanted`).

    Reads the repository's list of files, then headers alone by ranged requests. Errors: InputError naming what the repository
    has when not exactly one model matches, HubError, and what `read_gguf` raises.
    """
    from model_configs import hub

    found = hub.Hub(token=token, deadline_s=hub.GGUF_DEADLINE_S).gguf(repo, wanted, revision or "main")
    source = Source("hub", f"{found.id}:{found.label}", revision=revision or "main", commit=found.commit)
    try:
        return describe_headers(found.headers, source)
    except PlannerError as error:
        error.fields.setdefault("model", source.name)
        raise
