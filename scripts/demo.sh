#!/bin/sh
# Set up, train a network on Census, explain it, run every experiment of the paper in its quick version, write a report.
set -eu
extra=all
. "$(dirname "$0")/setup.sh"
exec .venv/bin/shear reproduce census --quick "$@"
