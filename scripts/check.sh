#!/bin/sh
# Set up, then run lint, types and tests.
set -eu
extra=dev
. "$(dirname "$0")/setup.sh"
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/lint-imports
unset PYTHONDONTWRITEBYTECODE  # or each process that a test starts compiles the package again
# a worker that dies ends the run: without it, this order of tests may wait for it for ever
exec .venv/bin/pytest -n auto --dist loadgroup --max-worker-restart=0 "$@"
