#!/usr/bin/env bash
# Installs the programs of a PostgreSQL server for the tests of the feature postgres, on Debian and its relatives, if
# they are not there. The tests start servers of their own in temporary folders and need no running one.
set -euo pipefail
if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && command -v psql >/dev/null; then
    exit 0
fi
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql
