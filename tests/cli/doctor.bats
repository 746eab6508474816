#!/usr/bin/env bats
# `cloister doctor` tells the truth about this machine.
load common

setup_file() {
    cli_setup_file
    timeout 60 "$CLOISTER" doctor --json >"$CLI_DIR/doctor.json" || true
}
setup() { cli_setup; }

field() {
    python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
print(next(c[sys.argv[3]] for c in d["checks"] if c["id"] == sys.argv[2]))' "$CLI_DIR/doctor.json" "$1" "$2"
}

@test "it ends with 0 exactly when a container runs, and says so last" {
    status=0
    cloister doctor >text || status=$?
    tail -1 text | grep -q '^grade: '
    if cloister run -- true; then
        [ "$status" = 0 ]
        grep -q '^ok .*a container' text
    else
        [ "$status" = 125 ]
    fi
}

@test "every check has a state and what was found; whatever is not ok has a remedy" {
    python3 - "$CLI_DIR/doctor.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert isinstance(d["canRun"], bool) and d["grade"]
ids = [c["id"] for c in d["checks"]]
assert len(ids) == len(set(ids)) and len(ids) > 15, ids
for c in d["checks"]:
    assert c["state"] in ("ok", "limited", "missing") and c["detail"], c
    assert (c["state"] == "ok") != bool(c.get("remedy")), c
END
}

@test "the grade is the engine's own" {
    grade=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["grade"])' "$CLI_DIR/doctor.json")
    cloister run --json -- true >result
    [ "$(python3 -c 'import json; print(json.load(open("result"))["grade"])')" = "$grade" ]
}

@test "a data directory that cannot be used is found out" {
    touch file
    run cloister doctor --json --data-dir "$PWD/file/sub"
    [ "$status" = 125 ]
    [[ $output == *'"canRun":false'* ]]
}

@test "helpers that are missing are found out" {
    mkdir empty
    cp "$CLOISTER" empty/cloister
    run env CLOISTER_LIBEXEC="$PWD/empty" ./empty/cloister doctor
    [ "$status" = 125 ]
    [[ $output == *cloister-init*"not found"* ]]
}

@test "without user namespaces it says which switch forbids them" {
    [ "$(id -u)" = 0 ] || skip "needs root to set a limit"
    # The limit of a user namespace counts for those made in it.
    run unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$CLOISTER" doctor --json'
    [[ $output == *'"id":"user-namespaces","state":"missing"'* ]]
}
