#!/usr/bin/env bash
# Installs the llama.cpp server that the live tests start into .venv-live, once for each content of requirements-live.txt.
# Where it cannot be installed the live tests are skipped, unless REQUIRE_LIVE=1, which makes that a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.venv-live
mark="$folder/.ready"
if [ -f "$mark" ] && cmp -s requirements-live.txt "$mark"; then
  exit 0
fi
if "${PYTHON:-python3}" -m venv "$folder" &&
  "$folder/bin/python" -m pip install --quiet --only-binary :all: -r requirements-live.txt &&
  "$folder/bin/python" -c 'import xllamacpp'; then
  cp requirements-live.txt "$mark"
  exit 0
fi
echo "the llama.cpp server of requirements-live.txt could not be installed here; the live tests will be skipped" >&2
[ "${REQUIRE_LIVE:-}" != 1 ]
