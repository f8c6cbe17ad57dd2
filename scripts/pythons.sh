#!/bin/sh
# Run the tests of scripts/lowest.sh with other versions of Python, those of them that are installed.
set -eu
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE
for version in ${*:-3.12 3.13}; do
    python=
    for candidate in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
        # pyenv has commands for all its versions, which work only for those in use
        "$candidate" -c "" 2> /dev/null && python=$candidate
    done
    if [ -z "$python" ]; then
        echo "Python $version is not installed: skipped"
        continue
    fi
    venv=.venv-$version
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    # the newest versions of libraries: those pinned may have no wheels for this Python
    "$venv/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check \
        -e ".[plots,explain,trees]" -e ./lab captum hypothesis lightgbm polars pytest pytest-timeout pytest-xdist scikit-learn xgboost-cpu
    "$venv/bin/python" -m pytest -n auto --max-worker-restart=0 -o filterwarnings=default \
        -m "not slow and not browser and not ray and not docs and not lab" \
        tests/methods tests/games tests/engine tests/data tests/result tests/interactions tests/plots
done
