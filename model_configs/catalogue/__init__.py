"""The offline catalogue: well-known models whose facts come with the planner, so that it works without a network.

Each YAML file beside this one is a maker or a family: `read`, the date its facts were read, and `models`, a list of
entries. An entry's `config` has the architecture words of the model's config.json under their own names and nesting;
what no engine's rules read (token ids, dropout, activations, ...) is left out. Long lists have three short forms,
recognised by their keys wherever a config word has a value:

    {runs: [sliding_attention x5, full_attention]}            a word with ` xN` stands N times
    {first: [..], cycle: [0 x3, 1], last: [..], length: 62}   the cycle fills what is between first and last
    {spelled: aab, a: .., b: ..}                              one value for each letter, spaces ignored
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from planner.errors import DataError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RUN = re.compile(r"(.+) x(\d+)")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
_TEXTS = ("id", "name", "source")
_FIELDS = {*_TEXTS, "aliases", "commit", "read", "config", "params", "weights_bytes"}
_LONGEST = 10_000


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue.

    config: the facts, as config.json words them. source: where they are from. commit: the Hub commit they were read at,
    where known. date: when they were read. aliases: other names, among them Hub ids of models with the same facts.
    params, weights_bytes: figures published with the checkpoint itself, where there are any.
    """

    id: str
    name: str
    config: dict[str, Any]
    source: str
    commit: str | None
    date: str
    aliases: tuple[str, ...] = ()
    params: int | None = None
    weights_bytes: int | None = None


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All entries by display name, the numbers in it by value. DataError when a file is malformed or a name repeats."""
    files = sorted((f for f in resources.files(__name__).iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    found = [entry for file in files for entry in parse(file.read_text(encoding="utf-8"), file.name)]
    names = [name.lower() for entry in found for name in (entry.id, *entry.aliases)]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise DataError(f"the catalogue has {', '.join(twice)} more than once", field=twice[0])
    return tuple(sorted(found, key=lambda entry: _by_value(entry.name)))


def _by_value(name: str) -> list[str | float]:
    """A sort key: text and numbers take turns, so that keys compare and "Qwen2.5 7B" comes before "Qwen2.5 14B"."""
    return [float(part) if i % 2 else part for i, part in enumerate(_NUMBER.split(name.lower()))]


def find(name: str) -> Entry | None:
    """The entry with this id or alias, or with this last part of one where only one entry has it. Case does not matter."""
    return _index().get(name.strip().lower())


@functools.cache
def _index() -> dict[str, Entry]:
    exact = {name.lower(): entry for entry in entries() for name in (entry.id, *entry.aliases)}
    owners: dict[str, dict[str, Entry]] = {}
    for name, entry in exact.items():
        owners.setdefault(name.rpartition("/")[2], {})[entry.id] = entry
    return {part: next(iter(found.values())) for part, found in owners.items() if len(found) == 1} | exact


def parse(text: str, name: str) -> Iterator[Entry]:
    """The entries of one file. DataError, naming the file and the entry, for anything that is not as described above."""
    try:
        data = yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise DataError(f"{name} is not YAML: {error}", field=name) from None
    if not isinstance(data, dict) or set(data) != {"read", "models"} or not isinstance(data["models"], list):
        raise DataError(f"{name} must have `read` and a list of `models`", field=name)
    for row in data["models"]:
        yield _entry(row, str(data["read"]), name)


def _entry(row: Any, date: str, file: str) -> Entry:
    where = f"{file}, {row.get('id')!r}" if isinstance(row, dict) else file
    if not isinstance(row, dict) or not set(row) <= _FIELDS or not isinstance(row.get("config"), dict):
        raise DataError(f"{where}: an entry has a config, and no fields but {', '.join(sorted(_FIELDS))}", field=file)
    if not all(isinstance(row.get(key), str) and row[key] for key in _TEXTS):
        raise DataError(f"{where}: {', '.join(_TEXTS)} must be texts", field=file)
    aliases = row.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise DataError(f"{where}: aliases must be a list of texts", field=file)
    if not all(row.get(key) is None or (type(row[key]) is int and row[key] > 0) for key in ("params", "weights_bytes")):
        raise DataError(f"{where}: params and weights_bytes must be whole numbers", field=file)
    return Entry(
        id=row["id"],
        name=row["name"],
        config={word: _expanded(value, where) for word, value in row["config"].items()},
        source=row["source"],
        commit=row.get("commit"),
        date=str(row.get("read", date)),
        aliases=tuple(aliases),
        params=row.get("params"),
        weights_bytes=row.get("weights_bytes"),
    )


def _expanded(value: Any, where: str) -> Any:
    """The value with the short forms of lists written out."""
    if not isinstance(value, dict):
        return value
    try:
        if "cycle" in value:
            return _cycle(**value)
        if "runs" in value:
            (runs,) = value.values()
            return _runs(runs)
        if "spelled" in value:
            return [value[letter] for letter in value["spelled"] if letter != " "]
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{where}: {value!r:.80} is not a list's short form: {error}", field=where) from None
    return {word: _expanded(inner, where) for word, inner in value.items()}


def _runs(items: list[Any]) -> list[Any]:
    """[1 x3, 0] as [1, 1, 1, 0]. ValueError when that is longer than any model has layers."""
    found: list[Any] = []
    for item in items:
        match = _RUN.fullmatch(item) if isinstance(item, str) else None
        if match is None:
            found.append(item)
            continue
        times = int(match[2])
        if times > _LONGEST:
            raise ValueError(f"{times} repetitions")
        found += [int(match[1]) if match[1].isdigit() else match[1]] * times
    return found


def _cycle(cycle: list[Any], length: int, first: list[Any] | None = None, last: list[Any] | None = None) -> list[Any]:
    """`length` values: first, the cycle as often as fits, last."""
    start, body, end = _runs(first or []), _runs(cycle), _runs(last or [])
    between = length - len(start) - len(end)
    if not body or not 0 <= between <= _LONGEST:
        raise ValueError(f"{length} values do not hold first, cycle and last")
    return [*start, *(body[i % len(body)] for i in range(between)), *end]
