# For every test of the command line. CLOISTER names the program under test; CLOISTER_LIBEXEC its helpers.
bats_require_minimum_version 1.5.0

cli_setup_file() {
    : "${CLOISTER:?set it to the program under test}"
    CLI_DIR=$(mktemp -d "${BATS_FILE_TMPDIR:-/tmp}/cli.XXXXXX")
    export CLI_DIR
    export CLOISTER_DATA_DIR=$CLI_DIR/data CLOISTER_RUN_DIR=$CLI_DIR/run CLOISTER_SOCKET=$CLI_DIR/sock
    export NO_COLOR=1 TERM=xterm
    mkdir -m 700 "$CLOISTER_DATA_DIR" "$CLOISTER_RUN_DIR"
}

cli_setup() {
    WORK=$(mktemp -d "$CLI_DIR/work.XXXXXX")
    cd "$WORK" || return 1
}

# Nothing here may hang: a hang is a failure with status 137.
cloister() {
    timeout -k 1 20 "$CLOISTER" "$@"
}

daemon_start() {
    "$CLOISTER" serve --socket "$CLOISTER_SOCKET" >"$CLI_DIR/daemon.log" 2>&1 3>&- &
    DAEMON=$!
    export DAEMON
    for _ in $(seq 100); do
        cloister ps >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    cat "$CLI_DIR/daemon.log" >&2
    return 1
}

daemon_stop() {
    kill "$DAEMON" 2>/dev/null || return 0
    wait "$DAEMON" 2>/dev/null || true
}
