#!/usr/bin/env bats
# `cloister run --copy-in` and `--copy-out`.
load common

setup_file() { cli_setup_file; }
setup() { cli_setup; }

@test "a tree goes in before the command starts: modes, links, times" {
    mkdir -p src/sub
    echo a >src/a
    chmod 750 src/a
    touch -d '2001-02-03 04:05:06.789 UTC' src/a
    ln -s a src/link
    echo b >"src/sub/b c"
    run -0 cloister run --copy-in src:/app -C /app -- sh -c 'cat a "sub/b c" link; stat -c %a:%u:%g:%Y a; readlink link'
    [ "$output" = $'a\nb\na\n750:0:0:981173106\na' ]
}

@test "a file takes the name given, or goes into a directory" {
    echo one >one
    run -0 cloister run --copy-in one:/new/two --copy-in one:/tmp --copy-in one:/deep/er/ -- cat /new/two /tmp/one /deep/er/one
    [ "$output" = $'one\none\none' ]
}

@test "names longer than a tar header, and a file of several megabytes" {
    long=$(printf 'n%.0s' $(seq 200))
    mkdir -p "t/$long"
    head -c 5000000 /dev/urandom >"t/$long/$long"
    run -0 cloister run --copy-in t:/t -- sha256sum "/t/$long/$long"
    [ "${output%% *}" = "$(sha256sum <"t/$long/$long" | cut -d' ' -f1)" ]
}

@test "what is missing is named, and nothing starts" {
    run --separate-stderr -125 cloister run --copy-in nope:/x -- echo started
    [ "$output" = "" ]
    [[ $stderr == *"--copy-in"*nope* ]]
    run --separate-stderr -125 cloister run --copy-in /etc/hostname -- true
    [[ $stderr == *SRC:DST* ]]
    run --separate-stderr -125 cloister run --copy-out rel:x -- true
    [[ $stderr == *absolute* ]]
}

@test "FIFOs and sockets are left out and said" {
    mkdir src
    mkfifo src/fifo
    echo x >src/x
    run --separate-stderr -0 cloister run --copy-in src:/s -- ls /s
    [ "$output" = x ]
    [[ $stderr == *"1 left out"*src/fifo* ]]
    run --separate-stderr -0 cloister run -q --copy-in src:/s -- ls /s
    [ "$stderr" = "" ]
}

@test "results come out after the command has ended, with its exit code" {
    run -4 cloister run --copy-out /out:result --copy-out /out/x:. -- \
        sh -c 'mkdir -p /out/d; echo x >/out/x; echo y >/out/d/y; chmod 4755 /out/x; ln -s d/y /out/l; exit 4'
    [ "$(cat result/x result/d/y result/l x)" = $'x\ny\ny\nx' ]
    [ "$(stat -c %a result/x)" = 755 ]
}

@test "I6: nothing gets out of the target" {
    mkdir result
    run --separate-stderr -0 cloister run --copy-out /out:result/ -- sh -c '
        mkdir -p /out/d; ln -s /etc/passwd /out/abs; ln -s ../../x /out/up; ln -s d/../../../x /out/sly; ln -s d /out/fine
        mkfifo /out/fifo; echo ok >/out/d/f'
    [ "$(cat result/out/d/f result/out/fine/f)" = $'ok\nok' ]
    [ ! -L result/out/abs ]
    [ ! -L result/out/up ]
    [ ! -L result/out/sly ]
    [ ! -e result/out/fifo ]
    [[ $stderr == *"4 left out"* ]]
}

@test "an existing link in the target is not followed" {
    mkdir canary
    mkdir out
    ln -s "$PWD/canary" out/d
    run --separate-stderr -125 cloister run --copy-out /out:. -- sh -c 'mkdir -p /out/d; echo bad >/out/d/f'
    [[ $stderr == *"--copy-out /out"* ]]
    [ -z "$(ls canary)" ]
}

@test "a time limit still lets results out" {
    run -124 cloister run --timeout 500ms --copy-out /tmp/r:r -- sh -c 'echo partial >/tmp/r; sleep 60'
    [ "$(cat r)" = partial ]
}

@test "a result that is missing is our failure and named" {
    run --separate-stderr -125 cloister run --copy-out /nope:x -- true
    [[ $stderr == *"--copy-out /nope"* ]]
}
