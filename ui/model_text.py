"""What somebody wrote into the model box: a catalogue id, a Hub id or address, a path, a config, or words to search by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from model_configs import catalogue
from planner.errors import InputError, shown

Kind = Literal["catalogue", "hub", "path", "content", "words"]

MAX_LENGTH = 200
_ID = re.compile(r"[\w.-]+/[\w.-]+(:[\w./-]+)?", re.ASCII)
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com")
_FILE_VIEWS = ("tree", "blob", "resolve", "raw", "commit")
_PATH = re.compile(r"[/~.]|[A-Za-z]:[\\/]")


@dataclass(frozen=True)
class Named:
    """What was meant. name: the id, the path, the content or the words; revision: of an address that has one."""

    kind: Kind
    name: str
    revision: str | None = None


def named(text: str) -> Named:
    """What `text` means. A catalogue id wins over the same id on the Hub; `catalogue:` and `hub:` force one.

    Errors: InputError for an address that is no model's, and for a text that is too long to be a name.
    """
    text = text.strip()
    if text in ("", "hub:", "catalogue:"):
        raise InputError("say which model: a name, an id of the Hub as owner/name, its address, or a config", field="model")
    if text.startswith(("{", "[")):
        return Named("content", text)
    if len(text) > MAX_LENGTH:
        raise InputError(f"a model's name has at most {MAX_LENGTH} characters, this text has {len(text):,}", field="model")
    if text.startswith("hub:"):
        return Named("hub", text.removeprefix("hub:").strip())
    if text.startswith("catalogue:"):
        return Named("catalogue", _entry(text.removeprefix("catalogue:").strip()))
    if "://" in text or text.lower().startswith(tuple(f"{host}/" for host in _HOSTS)):
        return _address(text)
    if entry := catalogue.find(text):
        return Named("catalogue", entry.id)
    if _PATH.match(text) or (text.lower().endswith((".json", ".gguf")) and ":" not in text):
        return Named("path", text)
    return Named("hub" if _ID.fullmatch(text) else "words", text)


def _entry(name: str) -> str:
    entry = catalogue.find(name)
    if entry is None:
        raise InputError(f"the catalogue has no {shown(name)}; a part of its name finds a model there", field="model")
    return entry.id


def _address(text: str) -> Named:
    """The model of a page of the Hub: its id, the revision, and the file where it is a GGUF one."""
    try:
        found = urlsplit(text if "://" in text else f"https://{text}")
        host = found.hostname or ""
    except ValueError:  # a bracket that makes no address of a host
        host = ""
    if host not in _HOSTS:
        raise InputError(f"{shown(text)} is no address of a model; those of huggingface.co/owner/name are read", field="model")
    parts = [unquote(part) for part in found.path.split("/") if part]
    if parts[:1] == ["models"]:
        parts = parts[1:]
    if len(parts) < 2 or parts[0] in ("datasets", "spaces", "docs", "papers", "collections", "api"):
        raise InputError(f"{shown(text)} is not the page of a model, which is huggingface.co/owner/name", field="model")
    name, rest = "/".join(parts[:2]), parts[2:]
    revision = rest[1] if len(rest) > 1 and rest[0] in _FILE_VIEWS else None
    file = "/".join(rest[2:])
    revision = None if revision == "main" else revision
    if file.lower().endswith(".gguf"):
        return Named("hub", f"{name}:{file}", revision)
    if revision is None and (entry := catalogue.find(name)):
        return Named("catalogue", entry.id)
    return Named("hub", name, revision)


def matching(words: str, most: int = 8) -> list[str]:
    """Catalogue ids that hold every word, in their id or another name of theirs."""
    wanted = words.lower().replace("/", " ").split()
    found = []
    for entry in catalogue.entries():
        text = " ".join((entry.id, *entry.aliases)).lower()
        if all(word in text for word in wanted):
            found.append(entry.id)
    return found[:most]
