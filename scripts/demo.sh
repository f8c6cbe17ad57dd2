#!/bin/sh
# Set up, train a network on Census, explain it, run the quick version of every experiment of the
# paper, and write a report.
set -eu
extra=all
. "$(dirname "$0")/setup.sh"
exec .venv/bin/shear paper reproduce census --quick "$@"
