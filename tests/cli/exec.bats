#!/usr/bin/env bats
# `cloister exec` through a daemon.
load common

setup_file() {
    cli_setup_file
    daemon_start
    cloister start box -- sleep infinity
}
teardown_file() { daemon_stop; }
setup() { cli_setup; }

@test "C049: an ordinary no is 1, with nothing on stderr" {
    run --separate-stderr -1 cloister exec box -- sh -c '[ 3 -gt 4 ]'
    [ "$output" = "" ]
    [ "$stderr" = "" ]
}

@test "C049: a missing container is 125 and named" {
    run --separate-stderr -125 cloister exec no-such-box -- ls
    [ "$output" = "" ]
    [[ $stderr == *no-such-box* ]]
    [ "$(wc -l <<<"$stderr")" = 1 ]
}

@test "C049: no daemon is 125 and the address is named" {
    run --separate-stderr -125 env CLOISTER_SOCKET="$PWD/nobody.sock" "$CLOISTER" exec box -- true
    [ "$output" = "" ]
    [[ $stderr == *"$PWD/nobody.sock"*"cloister serve"* ]]
}

@test "a socket of somebody else, or in a directory of somebody else, is not trusted" {
    # None of them is connected to: as root the daemon below would answer.
    mkdir theirs ours
    python3 -c 'import socket, sys
for path in sys.argv[1:]: socket.socket(socket.AF_UNIX).bind(path)' theirs/s ours/s
    ln -s "$PWD/theirs" link
    chown 12345 theirs ours/s
    for path in theirs/s ours/s link/s; do
        for words in "exec box -- true" "ps" "files cat box /etc/passwd"; do
            run --separate-stderr -125 env CLOISTER_SOCKET="$PWD/$path" "$CLOISTER" $words
            [[ $stderr == *"$PWD/${path%/s}"*"uid 12345"*"not trusted"* ]] || { echo "$path: $stderr"; false; }
            [[ $stderr != *"no daemon answers"* ]]
        done
    done
}

@test "a daemon that does not answer, a thing that is no socket, and one that we may not use are told apart" {
    echo >file
    run --separate-stderr -125 env CLOISTER_SOCKET="$PWD/file" "$CLOISTER" ps
    [[ $stderr == *"$PWD/file is no socket"* ]]
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("dead")'
    run --separate-stderr -125 env CLOISTER_SOCKET="$PWD/dead" "$CLOISTER" ps
    [[ $stderr == *"no daemon answers at $PWD/dead"* ]]
    chmod 700 . # as a directory of root that others may not enter
    run --separate-stderr -125 setpriv --reuid 12345 --regid 12345 --clear-groups \
        env CLOISTER_LIBEXEC="$CLOISTER_LIBEXEC" CLOISTER_SOCKET="$PWD/dead" "$CLOISTER" ps
    [[ $stderr == *"$PWD"*"uid 12345"*"ermission denied"* ]]
}

@test "C049: an unknown option is 125 and named" {
    run --separate-stderr -125 cloister exec --no-such-option box -- true
    [ "$output" = "" ]
    [[ $stderr == *--no-such-option* ]]
}

@test "with --json an unusable command line is an error object too" {
    for words in "exec --json --no-such-option box" "exec --no-such-option --json box" "run --json --memory" \
                 "ps --json --bogus" "exec --json --cwd"; do
        run --separate-stderr -125 cloister $words -- true
        [[ $output == '{"error":{"code":"INVALID_ARGUMENT",'*'"field":"'* ]] || { echo "$words: $output"; false; }
        [ -n "$stderr" ]
    done
    run --separate-stderr -125 cloister exec --no-such-option box -- true --json
    [ "$output" = "" ]
    run --separate-stderr -125 cloister logs --json --bogus box # an option that logs does not have
    [ "$output" = "" ]
}

@test "C049: a command's own 125 can be told from ours" {
    run --separate-stderr -125 cloister exec --json box -- sh -c 'exit 125'
    [[ $output == *'"exitCode":125'* && $output != *'"error"'* ]]
    run --separate-stderr -125 cloister exec --json no-such-box -- true
    [[ $output == '{"error":{'*no-such-box* ]]
}

@test "C003: 127 and 126, named" {
    run --separate-stderr -127 cloister exec box -- frobnicate-9 --version
    [ "$output" = "" ]
    [[ $stderr == *frobnicate-9*"not found"* ]]
    run --separate-stderr -126 cloister exec box -- /etc/hostname
    [ "$output" = "" ]
    [[ $stderr == *"/etc/hostname"* ]]
}

@test "stdout and stderr stay apart" {
    run --separate-stderr -7 cloister exec box -- sh -c 'echo out; echo err >&2; exit 7'
    [ "$output" = out ]
    [ "$stderr" = err ]
}

@test "stdin passes with -i byte for byte, and is at its end without" {
    head -c 3000000 /dev/urandom >blob
    want=$(sha256sum <blob)
    [ "$(cloister exec -i box -- sha256sum <blob)" = "$want" ]
    [ "$(cat blob | cloister exec -i box -- cat | sha256sum)" = "$want" ]
    run -0 cloister exec box -- cat <blob
    [ "$output" = "" ]
}

@test "both directions at once" {
    # bc answers each line before the next is sent.
    run -0 bash -c '
        coproc timeout 20 "$CLOISTER" exec -i box -- sh -c "while read -r x; do echo \$((x * 2)); done"
        for i in 1 2 3; do echo $i >&"${COPROC[1]}"; read -r y <&"${COPROC[0]}"; echo "$y"; done'
    [ "$output" = $'2\n4\n6' ]
}

@test "options may stand before and after the name" {
    [ "$(cloister exec -C /tmp box pwd)" = /tmp ]
    [ "$(cloister exec box -C /tmp -- pwd)" = /tmp ]
    [ "$(cloister exec -e A=1 box -e B=2 -- sh -c 'echo $A$B')" = 12 ]
}

@test "the working directory and the user are named when they are missing" {
    run --separate-stderr -125 cloister exec -C /nope box -- true
    [[ $stderr == */nope* ]]
    run --separate-stderr -125 cloister exec -u nosuch box -- true
    [[ $stderr == *nosuch* ]]
}

@test "a time limit is 124, with what was printed before" {
    begin=$SECONDS
    run --separate-stderr -124 cloister exec --timeout 1s box -- sh -c 'echo first; sleep 60'
    [ "$output" = first ]
    [[ $stderr == *"time limit (1s)"* ]]
    [ $((SECONDS - begin)) -lt 5 ]
}

@test "a flood arrives whole, through a pipe, into a file, and at a slow reader" {
    head -c 30000000 /dev/urandom >big
    cloister exec -i box -- sh -c 'cat; echo x >&2' <big 2>/dev/null | cmp - big
    cloister exec -i box -- cat <big >copy
    cmp copy big
    cloister exec -i box -- cat <big | (sleep 0.5; cmp - big)
    cloister exec -i box -- cat <big | while head -c 100000 2>/dev/null; do sleep 0.001; [ $((n += 1)) -gt 300 ] && break; done | cmp - big
    cloister run -- sh -c 'head -c 30000000 /dev/zero' | cmp - <(head -c 30000000 /dev/zero)
}

@test "what a command prints before anybody reads arrives too" {
    for n in $(seq 20); do
        [ "$(cloister exec box -- head -c 3000000 /dev/zero | wc -c)" = 3000000 ] || { echo "time $n"; false; }
    done
}

@test "output that the daemon lost is an error, and no success" {
    # A daemon that says it has dropped something: the real one must be kept waiting for that for 10 s.
    cat >daemon.py <<'END'
import http.server, json, socketserver, struct, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self): return "-"
    def log_message(self, *a): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"id": "0" * 32}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        code = 3 if "/three/" in self.path else 0
        for kind, cursor, body in ((1, 0, b"before"),
                                   (3, 100, json.dumps({"event": "dropped", "stream": "stdout", "bytes": 94, "cursor": 100}).encode()),
                                   (1, 100, b"after"),
                                   (3, 0, json.dumps({"event": "exit", "exitCode": code, "reason": "exit"}).encode())):
            frame = struct.pack("<B3xIQ", kind, len(body), cursor) + body
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        self.wfile.write(b"0\r\n\r\n")
socketserver.ThreadingUnixStreamServer(sys.argv[1], Handler).serve_forever()
END
    python3 daemon.py "$PWD/s" 3>&- &
    server=$!
    for _ in $(seq 100); do [ -S s ] && break; sleep 0.05; done
    run --separate-stderr cloister exec --socket "$PWD/s" zero -- x
    first=("$status" "$output" "$stderr")
    run --separate-stderr cloister exec --socket "$PWD/s" three -- x
    second=("$status" "$stderr")
    run --separate-stderr cloister exec --json --socket "$PWD/s" zero -- x
    kill "$server"
    [ "${first[0]}" = 125 ]
    [ "${first[1]}" = beforeafter ]
    [[ ${first[2]} == *"94 bytes"*stdout*lost* ]]
    [ "${second[0]}" = 3 ]
    [[ ${second[1]} == *"94 bytes"*stdout*lost* ]]
    [ "$status" = 125 ]
    [[ $output == '{"error":{'*"94 bytes"* ]]
}

@test "a guest that reads its own output's pipe empty takes bytes, and nothing else" {
    cloister exec box -- sh -c 'head -c 30000000 /dev/zero & for i in 1 2 3; do
        timeout 5 dd if=/proc/self/fd/1 of=/tmp/stolen bs=64k count=30 status=none; done 2>/dev/null; wait' >got
    [ "$(stat -c %s got)" -le 30000000 ]
    [ "$(tr -d '\0' <got | wc -c)" = 0 ]
    [ "$(cloister exec box -- echo still)" = still ]
}

@test "a reader that goes away ends the command as SIGPIPE would" {
    run -0 bash -c 'timeout 10 "$CLOISTER" exec box -- yes | head -1; echo "${PIPESTATUS[0]}"'
    [ "${lines[0]}" = y ]
    [ "${lines[1]}" = 141 ]
}

@test "signals are forwarded" {
    timeout 20 setsid env --default-signal "$CLOISTER" exec box -- \
        sh -c 'trap "exit 33" INT; echo ready; while :; do sleep 0.05; done' >ready &
    for _ in $(seq 100); do [ -s ready ] && break; sleep 0.05; done
    pkill -INT -f "cloister-client exec box -- sh -c trap \"exit 33\""
    status=0
    wait $! || status=$?
    [ "$status" = 33 ]
}

@test "a terminal, its size and its exit code" {
    run -3 bash -c 'timeout 20 script -qec "stty cols 99 rows 33; $CLOISTER exec -it box -- sh -c \"stty size; exit 3\"" /dev/null </dev/null'
    [[ $output == *"33 99"* ]]
}

@test "--detach prints an id whose output logs shows" {
    id=$(cloister exec --detach box -- sh -c 'echo from the background')
    [ -n "$id" ]
    [ "$(cloister logs -f --exec "$id" box)" = "from the background" ]
    run -125 cloister exec --detach -t box -- true
}

@test "a container that ends meanwhile is told" {
    cloister start brief -- sleep infinity
    cloister exec brief -- sleep 60 2>err &
    sleep 0.5
    cloister destroy --reason 'enough of it' brief
    status=0
    wait $! || status=$?
    [ "$status" = 125 ]
    grep -q destroy err
    cloister rm brief
}

@test "an empty command is refused" {
    run --separate-stderr -125 cloister exec box
    [[ $stderr == *"no command"* ]]
}
