#!/bin/sh
# Run the tests that need no other library's models with the lowest versions of what we depend on.
set -eu
cd "$(dirname "$0")/.."
[ -x .venv-lowest/bin/python ] || "${PYTHON:-python3}" -m venv .venv-lowest
python=.venv-lowest/bin/python
$python scripts/lowest.py > .venv-lowest/constraints.txt
grep '^torch==' constraints.txt >> .venv-lowest/constraints.txt
# tests import a fifth of what is installed: Python compiles that when it is imported, and keeps it
unset PYTHONDONTWRITEBYTECODE
$python -m pip install --no-compile --quiet --disable-pip-version-check -c .venv-lowest/constraints.txt \
    -e ".[plots,explain,trees]" -e ./lab captum hypothesis lightgbm polars pytest pytest-timeout pytest-xdist scikit-learn xgboost-cpu
[ "${1:-}" != --setup-only ] || exit 0
# their warnings are not ours
exec $python -m pytest -n auto --max-worker-restart=0 -o filterwarnings=default -m "not slow and not browser and not ray and not docs and not lab" \
    tests/methods tests/games tests/engine tests/data tests/result tests/interactions tests/plots "$@"
