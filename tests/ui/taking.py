"""What the tests of files do on a page: open one, and read the line of the shell."""

from __future__ import annotations

import re

from streamlit.testing.v1 import AppTest


def brought(page: AppTest, text: str) -> AppTest:
    """The page after somebody opened a file with this text."""
    place = page.file_uploader(key=f"open_plan_{page.session_state['import_count']}")
    return place.set_value(("saved.json", text.encode(), "application/json")).run()


def line(page: AppTest) -> str:
    """The line of the shell that the page shows, whichever page it is."""
    said = [str(code.value) for code in page.code if re.match("python -m planner (kv|plan) ", str(code.value))]
    return next(text for text in said if not text.endswith((" --json", " --why")))
