"""The page on paper: a style for printing, and pictures that take the width of the paper. Streamlit has no word for either."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_STYLE = Path(__file__).parent / "print.css"
#: Plotly draws a picture as wide as it stands on the screen and knows nothing of paper: while a page is printed each one gets a
#: view box, so that the style can scale it.
_PICTURES = st.components.v2.component(
    "paper",
    js="""
export default function () {
  const each = (what) => document.querySelectorAll(".js-plotly-plot .svg-container").forEach(what)
  const before = () => each((frame) => {
    const first = frame.querySelector(".main-svg")
    if (!first) return
    const [width, height] = ["width", "height"].map((name) => first.getAttribute(name))
    frame.style.setProperty("--paper", `${width} / ${height}`)
    frame.querySelectorAll(".main-svg").forEach((svg) => svg.setAttribute("viewBox", `0 0 ${width} ${height}`))
  })
  const after = () => each((frame) => {
    frame.style.removeProperty("--paper")
    frame.querySelectorAll(".main-svg").forEach((svg) => svg.removeAttribute("viewBox"))
  })
  window.addEventListener("beforeprint", before)
  window.addEventListener("afterprint", after)
  return () => {
    window.removeEventListener("beforeprint", before)
    window.removeEventListener("afterprint", after)
  }
}
""",
)


def style() -> None:
    """Put the style into the page. It takes no room, and nothing of it holds on a screen."""
    st.html(_STYLE)


def pictures() -> None:
    """Let pictures take the width of the paper; last on a page, because the component has a gap before it."""
    _PICTURES(key="paper", height=0)
