#!/usr/bin/env bash
# Runs all jobs, and shows what those that fail have printed.
set -uo pipefail
cd "$(dirname "$0")"
failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for job in *.sh; do
    case $job in all.sh | support.sh) continue ;; esac
    start=$SECONDS
    if timeout 120 bash "$job" >"$output" 2>&1; then
        echo "$job: $((SECONDS - start)) s$(sed -n 's/^skipped: /, skipped: /p' "$output")"
    else
        echo "$job: FAILED with $?"
        cat "$output"
        failed=1
    fi
done
exit $failed
