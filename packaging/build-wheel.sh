#!/usr/bin/env bash
# Builds a wheel of the Python package, optimised: target/wheels/tidemill-VERSION-cp310-abi3-PLATFORM.whl. One wheel serves CPython 3.10
# and newer; its platform is manylinux with the C library of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v maturin >/dev/null || { echo "maturin is not there: pip install maturin" >&2; exit 1; }
exec maturin build --release --locked --manifest-path crates/python/Cargo.toml --out target/wheels "$@"
