#!/usr/bin/env bats
# `cloister cp` and `cloister files`.
load common

setup_file() {
    cli_setup_file
    daemon_start
    cloister start box -- sleep infinity
}
teardown_file() { daemon_stop; }
setup() { cli_setup; }

@test "a tree in and out again is the same" {
    mkdir -p src/sub
    head -c 3000000 /dev/urandom >src/blob
    echo x >"src/sub/with space"
    ln -s sub/../blob src/sly
    ln -s blob src/link
    ln src/blob src/sub/blob2
    chmod 600 src/blob
    cloister cp src box:/t/src
    run --separate-stderr -125 cloister cp box:/t/src back
    [[ $stderr == *"1 left out"*sly* ]]
    rm src/sly
    diff -r src back
    [ "$(stat -c %a:%Y back/blob)" = "$(stat -c %a:%Y src/blob)" ]
    [ "$(readlink back/link)" = blob ]
    cloister exec box -- test /t/src/blob -ef /t/src/sub/blob2
    [ back/blob -ef back/sub/blob2 ]
}

@test "a file goes into a directory, or takes the name given" {
    echo one >one
    cloister cp one box:/tmp
    cloister cp one box:/tmp/two
    cloister cp one box:/new/dir/
    [ "$(cloister exec box -- cat /tmp/one /tmp/two /new/dir/one)" = $'one\none\none' ]
    cloister cp box:/tmp/two .
    cloister cp box:/tmp/two three
    [ "$(cat two three)" = $'one\none' ]
}

@test "--exclude leaves out" {
    cloister exec box -- sh -c 'mkdir -p /e/keep /e/skip; echo a >/e/keep/a; echo b >/e/skip/b'
    cloister cp --exclude skip box:/e out
    [ -f out/keep/a ]
    [ ! -e out/skip ]
}

@test "--max-size bounds what comes out" {
    cloister exec box -- sh -c 'head -c 3000000 /dev/zero >/big'
    run --separate-stderr -125 cloister cp --max-size 1M box:/big out
    [[ $stderr == *"larger than 1048576 bytes"* ]]
}

@test "I6: planted links and devices do not get out" {
    cloister exec box -- sh -c 'mkdir -p /evil; ln -s /etc /evil/abs; ln -s ../.. /evil/up; mkfifo /evil/fifo; echo f >/evil/f'
    mkdir out
    run --separate-stderr -125 cloister cp box:/evil out/
    [ "$(ls out/evil)" = f ]
    [[ $stderr == *"3 left out"* ]]
}

@test "names of files that are dangerous to a terminal are shown harmlessly" {
    cloister exec box -- sh -c 'mkdir -p /ctl; : >"/ctl/$(printf "a\033[31mb\nc")"'
    run -0 cloister files ls box /ctl
    [ "$output" = 'a\x1b[31mb\x0ac' ]
    run -0 cloister files ls -l box /ctl
    [[ $output == *'a\x1b[31mb\x0ac'* ]]
}

@test "what is missing is named" {
    run --separate-stderr -125 cloister cp box:/no/such out
    [[ $stderr == *"/no/such"* ]]
    run --separate-stderr -125 cloister cp nothing-here box:/tmp
    [[ $stderr == *nothing-here* ]]
    run --separate-stderr -125 cloister cp no-such-box:/etc/hostname out
    [[ $stderr == *no-such-box* ]]
    run --separate-stderr -125 cloister cp one two
    [[ $stderr == *NAME:PATH* ]]
    run --separate-stderr -125 cloister cp box:relative out
    [[ $stderr == *absolute* ]]
}

@test "files: write, cat, stat, mv, mkdir, ls, rm" {
    echo hello | cloister files write -p --mode 640 box /f/g/h
    [ "$(cloister files cat box /f/g/h)" = hello ]
    [ "$(cloister files cat --offset 1 --length 3 box /f/g/h)" = ell ]
    echo more | cloister files write --append box /f/g/h
    [ "$(cloister files cat box /f/g/h)" = $'hello\nmore' ]
    run -125 cloister files write --exclusive box /f/g/h </dev/null
    cloister files stat box /f/g/h | grep -q '^-rw-r-----  *0:0  *11 '
    cloister files stat --json box /f/g/h | python3 -c 'import json,sys; assert json.load(sys.stdin)["size"] == 11'
    cloister files mkdir -p box /f/x/y
    cloister files mkdir --mode 0711 box /f/mode
    cloister files stat box /f/mode | grep -q '^drwx--x--x'
    cloister files rm -r box /f/mode
    cloister files mv box /f/g/h /f/x/y/z
    [ "$(cloister files ls -R box /f | sort | tr '\n' ' ')" = "g x x/y x/y/z " ]
    run -125 cloister files rm box /f
    cloister files rm -r box /f
    run --separate-stderr -125 cloister files stat box /f
    [[ $stderr == */f* ]]
    cloister files rm -f box /f
}

@test "files cat of a directory tells how to get it" {
    run --separate-stderr -125 cloister files cat box /etc
    [[ $stderr == *"/etc is a directory"*"cloister cp box:/etc ."* ]]
}

@test "files: hidden names only with -a" {
    cloister exec box -- sh -c 'mkdir /hid; : >/hid/.dot; : >/hid/plain'
    [ "$(cloister files ls box /hid)" = plain ]
    [ "$(cloister files ls -a box /hid | sort | tr '\n' ' ')" = ".dot plain " ]
}

@test "files: watch tells of changes as they happen" {
    cloister files mkdir box /w
    timeout 10 "$CLOISTER" files watch box /w >events 3>&- &
    for _ in $(seq 50); do
        cloister exec box -- touch "/w/seen-$RANDOM"
        [ -s events ] && break
        sleep 0.1
    done
    kill $! 2>/dev/null || true
    grep -q '"event":"create"' events
}
