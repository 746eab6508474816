#!/usr/bin/env bats
# `cloister run`: stdio, exit codes, environment, limits, signals.
load common

setup_file() { cli_setup_file; }
setup() { cli_setup; }

@test "stdout and stderr stay apart, the exit code is the command's" {
    run --separate-stderr -7 cloister run -- sh -c 'echo out; echo err >&2; exit 7'
    [ "$output" = out ]
    [ "$stderr" = err ]
}

@test "a command may come without --, and its options are its own" {
    run --separate-stderr -0 cloister run echo -n --image x
    [ "$output" = "--image x" ]
}

@test "stdin passes byte for byte from a file and from a pipe" {
    head -c 3000000 /dev/urandom >blob
    want=$(sha256sum <blob)
    [ "$(cloister run -- sha256sum <blob)" = "$want" ]
    [ "$(cat blob | cloister run -- cat | sha256sum)" = "$want" ]
}

@test "stdin is at its end with --no-stdin, and with a closed one" {
    run -0 cloister run --no-stdin -- cat < <(sleep 5)
    [ "$output" = "" ]
    run -0 bash -c 'timeout 10 "$CLOISTER" run -- cat <&-'
    [ "$output" = "" ]
}

@test "output to a file is appended, not overwritten" {
    echo before >log
    cloister run -- echo after >>log
    [ "$(cat log)" = $'before\nafter' ]
}

@test "a closed stdout or stderr does no harm" {
    cloister run -- sh -c 'echo x; echo y >&2' >&- 2>err
    [ "$(cat err)" = y ]
    run -0 bash -c '"$CLOISTER" run -- sh -c "echo x; echo y >&2" 2>&-'
    [ "$output" = x ]
}

@test "a reader that goes away ends the command as SIGPIPE would" {
    run -0 bash -c 'set -o pipefail; timeout 10 "$CLOISTER" run -- yes | head -1; echo "${PIPESTATUS[0]}"'
    [ "${lines[0]}" = y ]
    [ "${lines[1]}" = 141 ]
}

@test "so does a command that ignores SIGPIPE" {
    cat >stubborn.sh <<'END'
trap '' PIPE
while :; do echo x 2>/dev/null; done
END
    run -0 bash -c 'timeout 10 "$CLOISTER" run --copy-in stubborn.sh:/s -- sh /s | head -1; echo "${PIPESTATUS[0]}"'
    [ "${lines[1]}" = 141 ]
}

@test "a full disk under stdout is our failure, not the command's" {
    [ -w /dev/full ] || skip "no /dev/full"
    run --separate-stderr -125 bash -c 'timeout 10 "$CLOISTER" run -- echo x >/dev/full'
    [[ $stderr == *"cannot write to stdout: No space left on device"* ]]
}

@test "C003: a missing program is 127 and named" {
    run --separate-stderr -127 cloister run -- frobnicate-9 --version
    [ "$output" = "" ]
    [[ $stderr == *frobnicate-9* && $stderr == *"not found"* ]]
    run --separate-stderr -127 cloister run -- sh -c 'frobnicate-9 --version'
    [ "$output" = "" ]
    [[ $stderr == *frobnicate-9* && $stderr == *"not found"* ]]
    run --separate-stderr -127 cloister run -- /no/such/program
    [[ $stderr == *"/no/such/program: no such file"* ]]
}

@test "C003: a file that is no program is 126 and named" {
    run --separate-stderr -126 cloister run -- /etc/hostname
    [ "$output" = "" ]
    [[ $stderr == *"/etc/hostname: cannot be executed: Permission denied"* ]]
}

@test "a missing working directory or user is named" {
    run --separate-stderr -125 cloister run -C /nope -- true
    [[ $stderr == *"/nope"* ]]
    run --separate-stderr -125 cloister run -C nope -- true
    [[ $stderr == *"--cwd"*"absolute"* ]]
    run --separate-stderr -125 cloister run -u nosuch -- true
    [[ $stderr == *nosuch* ]]
}

@test "a process that a signal ended is 128 and the signal" {
    run -137 cloister run -- sh -c 'kill -9 $$'
    run -143 cloister run -- sh -c 'kill -15 $$'
}

@test "signals are forwarded" {
    for pair in TERM:9 INT:10 HUP:11 QUIT:12 USR1:13 USR2:14; do
        signal=${pair%:*} code=${pair#*:}
        rm -f ready
        # A background job of a script ignores INT and QUIT; with their default action back it does not.
        timeout 20 setsid env --default-signal "$CLOISTER" run -- \
            sh -c "trap 'exit $code' $signal; echo ready; while :; do sleep 0.05; done" >ready &
        for _ in $(seq 100); do [ -s ready ] && break; sleep 0.05; done
        pid=$(pgrep -f "^$CLOISTER run -- sh -c trap 'exit $code'")
        kill -"$signal" "$pid"
        status=0
        wait $! || status=$?
        [ "$status" = "$code" ]
    done
}

@test "three interrupts end a command that ignores them" {
    timeout 20 setsid env --default-signal "$CLOISTER" run -- \
        sh -c "trap '' INT; echo ready; sleep 300 & sleep 300; : stubborn" >ready &
    for _ in $(seq 100); do [ -s ready ] && break; sleep 0.05; done
    pid=$(pgrep -f "^$CLOISTER run -- sh -c trap '' INT")
    for _ in 1 2 3; do kill -INT "$pid"; sleep 0.1; done
    status=0
    wait $! || status=$?
    [ "$status" = 130 ]
}

@test "nothing of the caller's environment gets in but what is named" {
    run -0 env SECRET_TOKEN=1 LD_PRELOAD_X=2 PASSED=3 "$CLOISTER" run -e PASSED -e OWN=4 -- env
    [[ $output != *SECRET_TOKEN* && $output != *LD_PRELOAD_X* && $output != *CLOISTER* ]]
    [[ $output == *PASSED=3* && $output == *OWN=4* ]]
    [[ $output == *PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin* ]]
    [[ $output != *TERM=* ]]
}

@test "a variable that is not set is an error, not an empty one" {
    run --separate-stderr -125 cloister run -e SURELY_NOT_SET -- true
    [[ $stderr == *SURELY_NOT_SET* ]]
    run --separate-stderr -125 cloister run -e =x -- true
    [[ $stderr == *"empty"* ]]
}

@test "an environment file: comments, empty lines, later ones win, -e wins over it" {
    printf '# comment\n\nA=1\nB=two words\nA=3\r\nC=4\n' >vars
    run -0 cloister run --env-file vars -e C=5 -- sh -c 'echo "$A|$B|$C"'
    [ "$output" = "3|two words|5" ]
    printf 'A=1\n=2\n' >vars
    run --separate-stderr -125 cloister run --env-file vars -- true
    [[ $stderr == *vars:2* ]]
}

@test "a time limit is 124, with a message, and what was printed before" {
    begin=$SECONDS
    run --separate-stderr -124 cloister run --timeout 1s -- sh -c 'echo first; sleep 60; echo never'
    [ "$output" = first ]
    [[ $stderr == *"time limit (1s)"* ]]
    [ $((SECONDS - begin)) -lt 5 ]
}

@test "C005: a background child that holds the output does not hold the call" {
    begin=$SECONDS
    run -0 cloister run --timeout 10s -- sh -c 'sleep 25 & echo launched'
    [ "$output" = launched ]
    [ $((SECONDS - begin)) -lt 4 ]
}

@test "a memory limit is 137 and named" {
    run --separate-stderr -137 cloister run --memory 64M -- python3 -c 'x = bytearray(400 << 20)'
    [[ $stderr == *"memory limit (64M) reached"* ]]
}

@test "a fork bomb stays within the process limit" {
    run cloister run --pids 32 --timeout 10s -- sh -c 'i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; wait'
    [ "$status" -ne 0 ]
    [ "$status" -ne 124 ]
}

@test "a disk limit is ENOSPC inside" {
    run cloister run --disk 4M -- sh -c 'head -c 20000000 /dev/zero >/tmp/x'
    [ "$status" -ne 0 ]
    [[ $output == *"No space left"* ]]
}

@test "open files are limited" {
    run -0 cloister run --nofile 77 -- sh -c 'ulimit -n'
    [ "$output" = 77 ]
}

@test "nonsense in a limit names the option" {
    for bad in '--memory x' '--memory 1K' '--cpus 0' '--cpus -1' '--pids 0' '--pids 1.5' '--disk 1Q' '--nofile no' \
        '--timeout never' '--timeout 0' '--timeout 99999999999999999999'; do
        # shellcheck disable=SC2086
        run --separate-stderr -125 cloister run $bad -- true
        [ "$output" = "" ]
        [[ $stderr == *"${bad%% *}"* ]]
    done
}

@test "the host name is the one given, the name, or cloister" {
    [ "$(cloister run -- uname -n)" = cloister ]
    [ "$(cloister run --name box-1 -- uname -n)" = box-1 ]
    [ "$(cloister run --name box-1 --hostname other -- uname -n)" = other ]
    run -125 cloister run --name 'Bad Name' -- true
}

@test "--json: one object, nothing else on stdout" {
    cloister run --json --name j --label a=b -- sh -c 'echo out; echo err >&2; exit 3' >result || status=$?
    [ "$status" = 3 ]
    [ "$(wc -l <result)" = 1 ]
    python3 - <<'END'
import json
r = json.load(open("result"))
assert r["exitCode"] == 3 and r["reason"] == "exit" and r["encoding"] == "utf-8", r
assert r["stdout"] == "out\n" and r["stderr"] == "err\n" and not r["stdoutTruncated"], r
assert r["name"] == "j" and r["labels"] == {"a": "b"} and r["grade"] and r["timings"]["totalUs"] > 0, r
END
}

@test "--json: binary output comes as base64, long output is cut between characters" {
    cloister run --json -- printf '\377\001' >result
    python3 -c 'import json,base64; r=json.load(open("result")); assert r["encoding"]=="base64" and base64.b64decode(r["stdout"])==b"\xff\x01", r'
    cloister run --json -- python3 -c 'print("a" + "\u0109" * 600000, end="")' >result
    python3 - <<'END'
import json
r = json.load(open("result"))
assert r["stdoutTruncated"] and r["stdoutBytes"] == 1200001 and r["encoding"] == "utf-8"
assert r["stdout"] == "a" + "\u0109" * ((1 << 19) - 1), len(r["stdout"])
END
}

@test "--json: a limit is a result, our failure is an error" {
    cloister run --json --timeout 500ms -- sh -c 'echo first; sleep 9' >result || status=$?
    [ "$status" = 124 ]
    grep -q '"reason":"timeout"' result
    grep -q '"stdout":"first\\n"' result
    run --separate-stderr -125 cloister run --json --image no-such-image -- true
    [[ $output == '{"error":{'*'no-such-image'* ]]
    run --separate-stderr -125 cloister run --json --memory lots -- true
    [[ $output == '{"error":{"code":"INVALID_ARGUMENT"'*'"field":"--memory"'* ]]
    run --separate-stderr -127 cloister run --json -- frobnicate-9
    [[ $output == *'"code":"ENOENT"'*'"field":"argv"'* ]]
    run --separate-stderr -125 cloister run --json -- sh -c 'exit 125'
    [[ $output == *'"exitCode":125'* ]]
}

@test "--timings names the stages; --json has them too" {
    run --separate-stderr -0 cloister run --timings -- true
    [[ $stderr == *"root "*"namespaces "*"agent "*"ready "* ]]
}

@test "an image that does not exist says how to get it" {
    run --separate-stderr -125 cloister run --image nope -- true
    [ "$output" = "" ]
    [[ $stderr == *nope*"cloister image"* ]]
}

@test "a snapshot that does not exist is named" {
    run --separate-stderr -125 cloister run --snapshot 00000000000000000000000000000000 -- true
    [[ $stderr == *00000000000000000000000000000000* ]]
}

@test "without a command the image's own runs" {
    run -0 bash -c 'echo "echo from the shell; exit 0" | timeout 10 "$CLOISTER" run'
    [ "$output" = "from the shell" ]
}

@test "nothing is left behind" {
    cloister run -- true
    left=$(find "$CLOISTER_RUN_DIR" -mindepth 1 -printf '%P\n' | grep -v -x -e mounts -e ids.lock) || true
    [ -z "$left" ]
}

@test "what a run that was killed left, the next one removes" {
    mkfifo held
    cloister run -- cat <held >/dev/null 3>&- &
    run_pid=$!
    exec 9>held
    for _ in $(seq 100); do
        engine=$(find "$CLOISTER_RUN_DIR" -mindepth 1 -type f -printf '%P\n' | grep -x '[0-9a-f]\{12\}') && break
        sleep 0.05
    done
    kill -9 $run_pid
    wait $run_pid || true
    exec 9>&-
    [ -e "$CLOISTER_RUN_DIR/$engine" ]
    cloister run -- true
    [ ! -e "$CLOISTER_RUN_DIR/$engine" ]
}
