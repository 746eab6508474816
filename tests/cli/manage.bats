#!/usr/bin/env bats
# start, ps, logs, stop, signal, destroy, rm, inspect, stats, snapshot.
load common

setup_file() {
    cli_setup_file
    daemon_start
}
teardown_file() { daemon_stop; }
setup() { cli_setup; }

@test "start, ps, inspect, stop, ps -a, start again, rm" {
    [ "$(cloister start -e A=1 --label team=x --memory 128M one -- sleep infinity)" = one ]
    [ "$(cloister ps -q)" = one ]
    [ "$(cloister ps -q --label team=x)" = one ]
    [ "$(cloister ps -q --label team=y)" = "" ]
    cloister ps | grep -q '^one .*running .*host'
    cloister inspect one | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["state"] == "running" and r["labels"] == {"team": "x"} and r["env"]["A"] == "1", r
assert r["instance"]["memoryMib"] == 128 and r["grade"], r'
    run --separate-stderr -125 cloister start one -- true
    [[ $stderr == *one*running* ]]
    run --separate-stderr -125 cloister rm one
    [[ $stderr == *running* ]]
    cloister stop --timeout 2s one
    [ "$(cloister ps -q)" = "" ]
    cloister ps -a | grep -q '^one .*stopped .*exit 143'
    cloister start one -- sh -c 'exit 6'
    for _ in $(seq 50); do cloister ps -a | grep -q '^one .*exit 6' && break; sleep 0.1; done
    cloister ps -a | grep -q '^one .*exit 6'
    cloister rm one
    [ "$(cloister ps -aq)" = "" ]
}

@test "a name, an option or a limit that is wrong is named before anything starts" {
    run --separate-stderr -125 cloister start Bad_Name -- true
    [[ $stderr == *name* ]]
    run --separate-stderr -125 cloister start ok --memory lots -- true
    [[ $stderr == *--memory* ]]
    run --separate-stderr -125 cloister start ok --image no-such-image -- true
    [[ $stderr == *no-such-image* ]]
    run --separate-stderr -125 cloister start ok -- frobnicate-9
    [[ $stderr == *frobnicate-9* ]]
    cloister rm -f ok 2>/dev/null || true
}

@test "logs: both streams, the tail, and following to the end" {
    cloister start talk -- sh -c 'echo one; echo two; echo oops >&2; sleep 1; echo three'
    run --separate-stderr -0 cloister logs -f talk
    [ "$output" = $'one\ntwo\nthree' ]
    [ "$stderr" = oops ]
    run --separate-stderr -0 cloister logs --tail 1 talk
    [ "$output" = three ]
    [ "$stderr" = oops ]
    run --separate-stderr -0 cloister logs --tail 0 talk
    [ "$output" = "" ]
    run --separate-stderr -125 cloister logs nobody
    [[ $stderr == *nobody* ]]
    cloister rm talk
}

@test "logs --tail --follow goes on where the tail ended" {
    cloister start tick -- sh -c 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done'
    sleep 0.5
    run -0 cloister logs --tail 1 -f tick
    [ "${lines[-1]}" = 6 ]
    [ "$(printf '%s\n' "${lines[@]}" | sort -u | wc -l)" = "${#lines[@]}" ]
    [ "${lines[0]}" != 1 ] || [ "${#lines[@]}" -le 6 ]
    cloister rm -f tick
}

@test "signal by name and by number reaches the main process" {
    cloister start sig -- sh -c 'trap "echo usr1" USR1; trap "echo hup" HUP; echo ready; while :; do sleep 0.05; done'
    for _ in $(seq 50); do [ "$(cloister logs sig)" = ready ] && break; sleep 0.1; done
    cloister signal -s SIGUSR1 sig
    cloister signal -s 1 sig
    for _ in $(seq 50); do cloister logs sig | grep -q hup && break; sleep 0.1; done
    [ "$(cloister logs sig | sort | tr '\n' ' ')" = "hup ready usr1 " ]
    run --separate-stderr -125 cloister signal -s USR9 sig
    [[ $stderr == *USR9* ]]
    cloister rm -f sig
}

@test "destroy keeps its reason, several at once, a failure does not stop the rest" {
    cloister start d1 -- sleep infinity
    cloister start d2 -- sleep infinity
    run --separate-stderr -125 cloister destroy --reason 'misbehaved badly' d1 nobody d2
    [[ $stderr == *nobody* ]]
    cloister ps -a | grep -q '^d1 .*destroy: misbehaved badly'
    cloister ps -a | grep -q '^d2 .*stopped'
    cloister rm d1 d2
}

@test "stats: for people and programs" {
    cloister start st -- sleep infinity
    cloister stats | grep -q '^st '
    cloister stats --json st | python3 -c 'import json,sys; assert json.load(sys.stdin)["st"]["memoryBytes"] > 0'
    cloister rm -f st
}

@test "a snapshot brings files back in start and in run, and another image refuses it" {
    cloister start src -- sleep infinity
    cloister exec src -- sh -c 'echo kept >/root/kept; rm /etc/hosts'
    id=$(cloister snapshot create --name first src)
    [[ $id =~ ^[0-9a-f]{32}$ ]]
    cloister snapshot list | grep -q "^$id .*first"
    [ "$(cloister snapshot list -q)" = "$id" ]
    [ "$(cloister run --snapshot "$id" -- sh -c 'cat /root/kept; ls /etc/hosts 2>/dev/null')" = kept ] || false
    cloister start copy --snapshot "$id" -- sleep infinity
    [ "$(cloister exec copy -- cat /root/kept)" = kept ]
    cloister rm -f src copy
    cloister snapshot rm "$id"
    [ "$(cloister snapshot list -q)" = "" ]
    run --separate-stderr -125 cloister run --snapshot "$id" -- true
    [[ $stderr == *"$id"* ]]
}

@test "start --mount puts the snapshot of a directory where it is wanted, also more than one" {
    cloister start src -- sleep infinity
    cloister exec src -- sh -c 'mkdir -p /data/sub /more; echo one >/data/sub/f; echo two >/more/g'
    data=$(cloister snapshot create --dir /data src)
    more=$(cloister snapshot create --dir /more src)
    cloister start user --mount "$data:/mnt/data" --mount "$more:/more" -- sleep infinity
    [ "$(cloister exec user -- cat /mnt/data/sub/f /more/g)" = $'one\ntwo' ]
    for wrong in "$data" "$data:relative" ":/mnt"; do
        run --separate-stderr -125 cloister start other --mount "$wrong" -- true
        [[ $stderr == *"--mount: expected SNAPSHOT:DIR"* ]]
    done
    run --separate-stderr -125 cloister start other --mount "$(printf '%032d' 0):/mnt" -- true
    [[ $stderr == *00000000* ]]
    cloister rm -f src user
    cloister rm -f other 2>/dev/null || true
    cloister snapshot rm "$data" "$more"
}

@test "a run or data directory that is a file is said to be no directory" {
    echo >file
    for option in --run-dir --data-dir; do
        run --separate-stderr -125 cloister serve "$option" "$PWD/file" --socket "$PWD/s"
        [[ $stderr == *"$PWD/file is not a directory"* ]]
    done
    run --separate-stderr -125 cloister run --run-dir "$PWD/file" -- true
    [[ $stderr == *"$PWD/file is not a directory"* ]]
}

@test "ps --json is the API's answer" {
    cloister ps --json | python3 -c 'import json,sys; assert json.load(sys.stdin)["containers"] == []'
}
