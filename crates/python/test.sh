#!/usr/bin/env bash
# Builds the package as `pip install ./crates/python` does, but without optimisation, installs it into the environment of a Python that has
# maturin, and runs its tests there: types by mypy, examples, threads, the page of the guide.
#
#     crates/python/test.sh PYTHON [ARGUMENTS OF PYTEST]
set -euo pipefail
python=${1:?give the Python of a virtual environment with maturin, mypy, pytest, duckdb, pandas, polars and pyarrow}
shift
cd "$(dirname "$0")"

# maturin looks for the tools of the environment on the path.
PATH="$(cd "$(dirname "$python")" && pwd):$PATH"
"$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --no-index --force-reinstall \
    --config-settings=build-args='--profile dev' .
mypy --no-error-summary python/tidemill
# From elsewhere: what is tested is what was installed.
exec "$python" -m pytest -q -p no:cacheprovider --import-mode=importlib "$@" tests
