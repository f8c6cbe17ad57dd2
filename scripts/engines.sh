#!/bin/sh
# Run the recipes of docs/howto/large-jobs.md on Dask and Spark (which needs Java 17), in .venv-engines.
set -eu
cd "$(dirname "$0")/.."
[ -x .venv-engines/bin/python ] || "${PYTHON:-python3}" -m venv .venv-engines
python=.venv-engines/bin/python
unset PYTHONDONTWRITEBYTECODE
# torch first and alone, at its pinned version: no other library is to choose another
$python -m pip install --no-compile --quiet --disable-pip-version-check "$(grep '^torch==' constraints.txt)"
$python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -c scripts/engines.txt \
    -e ".[explain]" dask distributed hypothesis pyspark pytest pytest-timeout pytest-xdist scikit-learn
exec $python -m pytest -p no:xdist -o filterwarnings=default tests/engine/test_engines.py "$@"
