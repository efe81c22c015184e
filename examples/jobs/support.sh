# What the jobs share: a folder of their own, waiting, and comparing. Each job is run by `bash examples/jobs/NAME.sh`.
set -euo pipefail

folder=$(mktemp -d)
running=()
stop_postgres=()
leave() {
    for process in "${running[@]}"; do
        kill -KILL "$process" 2>/dev/null || true
    done
    "${stop_postgres[@]}" >/dev/null 2>&1 || true
    # Whoever still runs still writes, and the folder is not empty.
    wait
    rm -rf "$folder"
}
trap leave EXIT
cd "$folder"

# start LOG COMMAND...: runs a command in the background; `$started` is its process.
start() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 &
    started=$!
    running+=("$started")
}

# stop PROCESS: asks a command to end in order, and waits until it has.
stop() {
    kill -TERM "$1"
    # 130 says that it was asked to.
    wait "$1" || [ $? = 130 ]
}

# wait_until COMMAND...: tries again until it succeeds, for at most a minute.
wait_until() {
    local try
    for try in $(seq 600); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "still waiting until: $*" >&2
    for log in *.log; do
        printf -- '-- %s\n' "$log" >&2
        tail -5 "$log" >&2
    done
    return 1
}

# free_port: prints a port on which nobody listens, below those that the system gives out by itself.
free_port() {
    local try port
    for try in $(seq 100); do
        port=$((10000 + RANDOM % 20000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || {
            echo "$port"
            return
        }
    done
    echo "no free port after $try attempts" >&2
    return 1
}

# rows FILE N: whether a CSV has this many rows behind its header.
rows() {
    [ "$(wc -l <"$1")" -eq $(($2 + 1)) ]
}

# same FILE: whether its rows, sorted, are those on standard input.
same() {
    if ! diff <(sort) <(tail -n +2 "$1" | sort); then
        echo "$1 has other rows than expected (>)" >&2
        return 1
    fi
}

# tested SCRIPT: tests a script with the case on standard input, for which nothing has to run.
tested() {
    mkdir "${1%.sql}.cases"
    cat >"${1%.sql}.cases/job.case"
    tidemill test "$1"
}

# postgres: starts a PostgreSQL of its own, and sets `$url`; ends the job with a note where there is none.
postgres() {
    local programs port as=()
    port=${PGPORT:-$(free_port)}
    programs=$(compgen -G '/usr/lib/postgresql/*/bin' | sort | tail -1) || {
        echo "skipped: PostgreSQL is not installed (tests/postgres/install.sh installs it)"
        exit 0
    }
    # The server refuses root.
    if [ "$(id -u)" = 0 ]; then
        as=(runuser -u postgres --)
        chmod 711 "$folder"
        install -d -o postgres "$folder/postgres"
    fi
    mkdir -p "$folder/postgres"
    (
        cd /
        "${as[@]}" "$programs/initdb" --no-sync -A trust -U tidemill -E UTF8 -D "$folder/postgres/data"
    ) >postgres.log
    # It has processes of its own, which only it can end.
    stop_postgres=("${as[@]}" "$programs/pg_ctl" stop --silent --mode=immediate -D "$folder/postgres/data")
    "${as[@]}" "$programs/postgres" -D "$folder/postgres/data" -p "$port" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off >server.log 2>&1 &
    url="postgres://tidemill@127.0.0.1:$port/postgres"
    wait_until psql "$url" -c 'SELECT 1'
}
