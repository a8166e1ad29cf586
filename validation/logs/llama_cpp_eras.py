"""Which versions of llama.cpp a log can be of: the build that it prints, else those that print in its shapes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from planner.engines.llama_cpp_table import Era, era_of, eras
from planner.errors import InputError

#: Words of a log: the first build that prints them and the first that does not any more (0: still printed).
BUILDS: Final[dict[str, tuple[int, int]]] = {
    "llama_new_context_with_model": (0, 4500),
    "llama_init_from_model": (4400, 5140),
    "llama_kv_cache_init": (0, 5140),
    "KV self size": (0, 5430),
    "llama_kv_cache_recurrent": (5140, 5640),
    "llama_kv_cache_unified": (5140, 7010),
    "no streams": (5430, 5910),
    "streams": (5910, 0),
    "llama_kv_cache:": (6325, 0),
    "llama_kv_cache_iswa": (6325, 0),
    "n_ctx_per_seq": (4700, 7010),
    "n_ctx_seq": (7010, 0),
    "sched_reserve": (7830, 0),
    "n_rs_seq": (8665, 0),
    " rs_seq)": (8665, 0),
}


def name_of(era: Era) -> str:
    """A version of the era as llama.cpp's settings take it."""
    return f"b{era.build}" if era.build else era.commits[0]


def possible(version: str | None, shapes: Collection[str]) -> list[str]:
    """Versions to try, the most likely first: the printed build's, else one of each era whose shapes these are, newest first."""
    if version is not None:
        try:
            era_of(version)
            return [version]
        except InputError:
            pass
    known = eras()
    ends = [row.build for row in known[1:]] + [1 << 30]
    fits = [
        name_of(era)
        for era, end in zip(known, ends, strict=True)
        if all(first < end and (not last or last > era.build) for first, last in map(BUILDS.__getitem__, shapes))
    ]
    return list(reversed(fits)) or [name_of(known[-1])]
