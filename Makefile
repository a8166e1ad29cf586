# Two commands on a fresh machine with python3: `make app` and `make test`. Each makes its own environment.
PYTHON ?= python3
APP_PORT ?= 8501
APP := .venv-app
DEV := .venv

.PHONY: app test live check fix coverage screenshots clean

$(APP)/.ready: requirements-app.txt
	$(PYTHON) -m venv $(APP)
	$(APP)/bin/python -m pip install --quiet --upgrade pip
	$(APP)/bin/python -m pip install --quiet -r requirements-app.txt
	touch $@

# torch first and pinned: an unpinned resolution may pull another build.
$(DEV)/.ready: requirements.txt requirements-app.txt requirements-validation.txt requirements-mcp.txt requirements-dev.txt
	$(PYTHON) -m venv $(DEV)
	$(DEV)/bin/python -m pip install --quiet --upgrade pip
	$(DEV)/bin/python -m pip install --quiet -r requirements-validation.txt
	$(DEV)/bin/python -m pip install --quiet -r requirements-dev.txt
	touch $@

# The page, on http://localhost:8501, with the bundled catalogue; nothing but the light set is installed. It listens to this machine
# alone, so that the model box may read paths of it.
app: $(APP)/.ready
	KV_PLANNER_LOCAL_FILES=1 $(APP)/bin/python -m streamlit run app.py --server.port $(APP_PORT) --server.address localhost

test: $(DEV)/.ready
	PYTHON=$(PYTHON) scripts/live_server.sh
	$(DEV)/bin/python -m pytest -q

# A real llama.cpp server against the planner; here it is a failure where that server cannot be installed.
live: $(DEV)/.ready
	PYTHON=$(PYTHON) REQUIRE_LIVE=1 scripts/live_server.sh
	REQUIRE_LIVE=1 $(DEV)/bin/python -m pytest -q -m live tests/validation

check: $(DEV)/.ready
	$(DEV)/bin/ruff check .
	$(DEV)/bin/mypy

fix: $(DEV)/.ready
	$(DEV)/bin/ruff check --fix .

# Rewrites the measured figures in README.md and docs/COVERAGE.md from the truth sets.
coverage: $(DEV)/.ready
	$(DEV)/bin/python -m validation.documents --write

screenshots: $(DEV)/.ready
	$(DEV)/bin/python scripts/screenshots.py

clean:
	rm -rf $(APP) $(DEV) .venv-live .pytest_cache .mypy_cache .ruff_cache .hypothesis
