# The commands that one needs most. `just` lists them; CONTRIBUTING.md has the rest.

# Many tests wait for processes, so there are more beside each other than cores.
export RUST_TEST_THREADS := env("RUST_TEST_THREADS", shell("echo $(($(nproc) * 2 + 1))"))

# Lists these commands.
default:
    @just --list

# Everything that a change must pass.
ci:
    .ci/run

# All tests; with a name, those of one package: `just test operators`.
test package="":
    cargo test {{ if package == "" { "--workspace" } else { "-p tidemill-" + package } }}

# All tests, the long ones in their short form (CONTRIBUTING.md names them); with a name, those of one package.
test-short package="":
    TIDEMILL_CRASH_RUNS=1 TIDEMILL_KILLS=1 TIDEMILL_POWER_LOSSES=4 TIDEMILL_SIMULATION_SCHEDULES=200 \
        TIDEMILL_DUCKDB_QUERIES=10 TIDEMILL_FUZZ_SECONDS=0.3 PROPTEST_CASES=16 \
        cargo test {{ if package == "" { "--workspace" } else { "-p tidemill-" + package } }}

# The rules of the repository.
tidy:
    cargo test -p tidemill-tidy

# The cases of the language with this in their name.
golden name="":
    TIDEMILL_GOLDEN={{ name }} cargo test -p tidemill-sql --test integration golden

# Writes what comes out into the cases of the language with this in their name: read the difference.
golden-update name="":
    TIDEMILL_UPDATE=1 TIDEMILL_GOLDEN={{ name }} cargo test -p tidemill-sql --test integration golden

# One page of the guide, or all of them.
guide page="":
    {{ if page == "" { "" } else { "TIDEMILL_GUIDE=" + page } }} cargo test -p tidemill-cli --test integration guide

# Formats, and lints without warnings.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings
