"""From llama.cpp's lines to what was loaded: files with their metadata, contexts with their settings, caches with their sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from validation.logs.llama_cpp_shapes import CONTEXT_WORDS, figures_of
from validation.logs.log import Figure
from validation.logs.shapes import Found

Figures = dict[str, Figure]


@dataclass(frozen=True)
class Cache:
    """One cache as printed. label: "non-SWA", "SWA", "indexer", .. or "" for the only one. kind: kv, state or compressor.

    types: of keys and values. figures: size_bytes, k_bytes, v_bytes (r_bytes, s_bytes, p_bytes of states), cells (of a stream),
    layers, seqs, streams, kv_size. devices: bytes by device. rows: elements of keys and values of each layer, where they are
    printed.
    """

    label: str
    kind: str
    figures: Figures
    types: tuple[str, str] | None = None
    devices: tuple[tuple[str, Figure], ...] = ()
    rows: tuple[tuple[int, int], ...] = ()

    @property
    def dry(self) -> bool:
        """Sized and not allocated, as `--fit` does: the buffers are empty and the sum is not."""
        size = self.figures.get("size_bytes")
        return bool(size and size.value and self.devices and not any(figure.value for _, figure in self.devices))

    def number(self, name: str) -> int | None:
        figure = self.figures.get(name)
        return int(figure.value) if figure else None


@dataclass
class Context:
    """One context: its settings as printed, its caches, and the buffers beside them."""

    words: dict[str, str] = field(default_factory=dict)
    caches: list[Cache] = field(default_factory=list)
    compute: Figures = field(default_factory=dict)
    output: Figures = field(default_factory=dict)
    full_windows: bool = False
    shapes: set[str] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        return not (self.words or self.caches or self.compute)

    def number(self, word: str) -> int | None:
        text = self.words.get(word, "")
        return int(text) if text.isdecimal() and len(text) < 12 else None


@dataclass
class Loaded:
    """One file: its metadata as dumped, llama.cpp's reading of it, its weights by device, and the contexts made of it."""

    path: str | None = None
    dumped: dict[str, tuple[str, str]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    weights: Figures = field(default_factory=dict)
    contexts: list[Context] = field(default_factory=list)

    @property
    def name(self) -> str | None:
        """The model's name: what the file says of itself, else the file's."""
        dumped = {key: value for key, (_, value) in self.dumped.items()}
        own = dumped.get("general.basename") and dumped.get("general.name")
        return own or self.words.get("general.name") or dumped.get("general.name") or self.path


@dataclass
class Table:
    """One memory breakdown: figures by device; a dry run has allocated nothing yet."""

    devices: dict[str, Figures] = field(default_factory=dict)

    @property
    def dry(self) -> bool:
        return any(row["unaccounted_bytes"].value < 0 for row in self.devices.values() if "unaccounted_bytes" in row)

    def total(self, name: str) -> int:
        return sum(int(row[name].value) // (1 << 20) for row in self.devices.values() if name in row)


#: Words by which `llama_cpp_eras` tells versions apart.
_ERA_WORDS: Final = (
    "KV self size", "llama_kv_cache_init", "llama_new_context_with_model", "llama_init_from_model", "llama_kv_cache_unified",
    "llama_kv_cache_recurrent", "llama_kv_cache:", "llama_kv_cache_iswa", " rs_seq)", "n_ctx_per_seq", "n_ctx_seq", "n_rs_seq",
    "sched_reserve",
)  # fmt: skip
_BUFFERS: Final = {"buffer_bytes": "kv", "rs_buffer_bytes": "state", "state_buffer_bytes": "compressor"}


def loads(found: Sequence[Found]) -> list[Loaded]:
    """The files of a log in order, each with its contexts. What stands before the first is a file without metadata."""
    files = [Loaded()]
    reader = _Contexts(files)
    for one in found:
        words = one.words
        if "path" in words:
            files.append(Loaded(words["path"]))
            reader.begin()
        elif "key" in words:
            files[-1].dumped.setdefault(words["key"], (words["type"], words["value"]))
        elif "model_buffer_bytes" in words:
            files[-1].weights[words["device"]] = one.figure("model_buffer_bytes")
        elif "word" in words and words["word"] not in CONTEXT_WORDS:
            if words["word"] == "arch" and "arch" in files[-1].words and files[-1].contexts:
                files.append(Loaded())
                reader.begin()
            files[-1].words.setdefault(words["word"], words["value"])
        else:
            reader.take(one)
    return [file for file in files if file.dumped or file.words or any(not context.empty for context in file.contexts)]


class _Contexts:
    """Puts the lines of contexts together: buffers come before the sum that they belong to."""

    def __init__(self, files: list[Loaded]) -> None:
        self.files = files
        self.begin()

    def begin(self) -> None:
        self.label = ""
        self.pending: list[tuple[str, str, Figure]] = []
        self.before: Figures = {}
        self.rows: list[tuple[int, int]] = []
        self.types: tuple[str, str] | None = None
        self.texts: set[str] = set()
        self.current: Context | None = None

    @property
    def context(self) -> Context:
        if self.current is None:
            self.current = Context()
            self.files[-1].contexts.append(self.current)
        return self.current

    def take(self, one: Found) -> None:
        words, figures, text = one.words, figures_of(one), one.line.text
        if "context_bytes" in figures:
            return
        self.texts.update(_shape_words(text))
        if one.shape.starts == "constructing llama_context":
            self._next()
        elif words.get("word") in CONTEXT_WORDS:
            if words["word"] in self.context.words:
                self._next()
            self.context.words[words["word"]] = words["value"]
        elif one.shape.starts == "using full-size SWA cache":
            self.context.full_windows = True
        elif "label" in words:
            self.label = words["label"]
        elif "layer_k" in figures:
            self.rows.append((int(words["layer_k"]), int(words["layer_v"])))
        elif "kv_size" in figures:
            if self.context.caches and not self.label:
                self._next()
            self.before, self.types = figures, (words["type_k"], words["type_v"])
        elif name := next((name for name in _BUFFERS if name in figures), None):
            self.pending.append((_BUFFERS[name], words["device"], figures[name]))
        elif "size_bytes" in figures:
            self._cache(words, figures, text)
        elif "compute_bytes" in figures:
            self.context.compute[words["device"]] = figures["compute_bytes"]
        elif "output_bytes" in figures:
            if self.context.caches and self.context.output and words["device"] in self.context.output:
                self._next()
            self.context.output[words["device"]] = figures["output_bytes"]

    def _next(self) -> None:
        """A new context, unless the last one is still empty."""
        if self.current is not None and not self.current.empty:
            self.begin()

    def _cache(self, words: Mapping[str, str], figures: Figures, text: str) -> None:
        kind = "state" if "r_bytes" in figures else "compressor" if "state_rows" in figures else "kv"
        mine = tuple((device, figure) for what, device, figure in self.pending if what == kind)
        self.pending = [row for row in self.pending if row[0] != kind]
        types = (words["type_k"], words["type_v"]) if "type_k" in words else self.types
        label = words.get("name", self.label) if kind == "compressor" else "" if kind == "state" else self.label
        cells = {name: figure for name, figure in self.before.items() if name == "kv_size"}
        if "layers" not in figures and "n_layer" in self.before:
            cells["layers"] = self.before["n_layer"]
        rows = tuple(self.rows) if kind == "kv" else ()
        self.context.caches.append(Cache(label, kind, {**cells, **figures}, types, mine, rows))
        self.context.shapes.update(self.texts)
        if kind == "kv":
            self.label, self.before, self.types, self.rows = "", {}, None, []


def _shape_words(text: str) -> Iterator[str]:
    """What a line tells of the version that printed it."""
    yield from (word for word in _ERA_WORDS if word in text)
    if " seqs), K" in text:
        yield "streams" if "/" in text.partition(" seqs), K")[0].rpartition(",")[2] else "no streams"


def tables(found: Sequence[Found]) -> list[Table]:
    """The memory breakdowns in order: a table ends where a device comes again."""
    result: list[Table] = []
    for one in found:
        if "context_bytes" not in one.words:
            continue
        device = one.words["device"]
        if not result or device in result[-1].devices or "Host" in result[-1].devices:
            result.append(Table())
        result[-1].devices[device] = figures_of(one)
    return result
