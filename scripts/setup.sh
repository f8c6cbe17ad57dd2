# Sourced by the other scripts: makes a virtual environment in .venv, with the extra named in $extra
# at the pinned versions.
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extra]" -e ./lab
