"""The page: `streamlit run app.py`. Page settings and navigation; the arithmetic is in planner/."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui import carried, charts, language, paper
from ui.i18n import t

# A file, because a browser would fetch the picture of a ":material/...:" icon from another host, which offline it cannot.
ICON = Path(__file__).parent / "ui" / "icon.png"

language.settle()
st.set_page_config(page_title=t("app.title"), page_icon=str(ICON), layout="wide")
page = st.navigation(
    [
        st.Page("ui/plan.py", title=t("nav.plan"), icon=":material/calculate:", url_path="plan", default=True),
        st.Page("ui/capacity.py", title=t("capacity.nav"), icon=":material/memory:", url_path="capacity"),
        st.Page("ui/compare.py", title=t("compare.nav"), icon=":material/compare_arrows:", url_path="compare"),
        st.Page("ui/explain.py", title=t("explain.nav"), icon=":material/receipt_long:", url_path="explain"),
        st.Page("ui/validate.py", title=t("validate.nav"), icon=":material/fact_check:", url_path="validate"),
        st.Page("ui/learn.py", title=t("learn.nav"), icon=":material/school:", url_path="learn"),
        st.Page("ui/method.py", title=t("nav.method"), icon=":material/functions:", url_path="method"),
    ],
    position="top",
)
language.switch()
paper.style()
try:
    page.run()
finally:  # a page may end early
    carried.share(page.url_path or "plan")
charts.choose_format()
paper.pictures()
