#!/bin/sh
# Set up, train a small network on the wine data, explain it, print and plot one row.
set -eu
extra=all
. "$(dirname "$0")/setup.sh"
exec .venv/bin/python examples/wine.py "$@"
