"""A file of observed lengths: uploaded, read once with its progress shown, and kept in the visitor's own session."""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.typing import UploadedFile

from planner.errors import InputError
from planner.workload import Workload
from planner.workload_lengths import read_lengths
from ui import messages
from ui.i18n import t

#: MiB that an upload may have: some half a million requests.
MOST_MIB = 8


@dataclass(frozen=True)
class Observed:
    """Lengths of a file: pairs of (prompt, output), what the shell calls the file, and what tells it from any other."""

    name: str
    digest: str
    pairs: tuple[tuple[int, int], ...]


def ask() -> None:
    """Draw the upload, read it where it is new, and say what is in it or what is wrong with it."""
    upload = st.file_uploader(
        t("capacity.upload"), type=["csv", "jsonl"], key="lengths", max_upload_size=MOST_MIB, help=t("capacity.upload.help")
    )
    st.caption(t("capacity.upload.note"))
    if upload is None:
        st.session_state.pop("observed", None)
        return
    kept = st.session_state.get("observed")
    if kept is None or kept[0] != upload.file_id:
        st.session_state.observed = kept = (upload.file_id, _read(upload))
    if isinstance(kept[1], InputError):
        messages.error(kept[1], t("capacity.upload.wrong"))
    else:
        st.caption(_summary(kept[1]))


def read() -> Observed | None:
    """What the session's upload has; None while there is none that can be read."""
    found = st.session_state.get("observed", (None, None))[1]
    return found if isinstance(found, Observed) else None


def digest(work: Workload) -> str:
    """What tells the samples of a workload from any others; empty where it has none."""
    found = read()
    if not work.samples:
        return ""
    if found is not None and found.pairs is work.samples:
        return found.digest
    return hashlib.sha256(repr(work.samples).encode()).hexdigest()


def _read(upload: UploadedFile) -> Observed | InputError:
    """The lengths, by the reader that the shell has too; the file is on disk only for as long as that takes."""
    content, name = upload.getvalue(), safe_name(upload.name)
    bar = st.progress(0.0, t("capacity.upload.reading"))
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            return Observed(name, hashlib.sha256(content).hexdigest(), read_lengths(path, bar.progress))
    except InputError as problem:
        return problem
    finally:
        bar.empty()


def safe_name(name: str) -> str:
    """A visitor's file name without what a path, a shell or Markdown could take for something else."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[-60:] or "lengths.csv"


def _summary(found: Observed) -> str:
    ends = sorted(prompt + output for prompt, output in found.pairs)
    half, most = (ends[int((len(ends) - 1) * share)] for share in (0.5, 0.95))
    return t(
        "capacity.upload.summary", count=f"{len(ends):,}", name=messages.plain(found.name), half=f"{half:,}", most=f"{most:,}",
        longest=f"{ends[-1]:,}",
    )  # fmt: skip
