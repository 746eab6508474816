#!/usr/bin/env bats
# Help texts, and what is said about words that are not understood. No container is started here.
load common

setup_file() { cli_setup_file; }
setup() { cli_setup; }

commands="run start exec ps inspect logs stats stop signal destroy rm snapshot cp files doctor completion version help"

@test "without a command: the overview, on stderr, and 125" {
    run --separate-stderr -125 cloister
    [ "$output" = "" ]
    [[ $stderr == *"Usage:"* && $stderr == *doctor* ]]
}

@test "the overview names every command" {
    run -0 cloister help
    for c in $commands image serve; do
        grep -q "^  $c " <<<"$output"
    done
    run -0 cloister --help
    [[ $output == *Usage:* ]]
}

@test "every command has help by help and by --help, the same" {
    for c in $commands; do
        cloister help "$c" >one
        cloister "$c" --help >two
        cmp one two
        grep -q '^Usage:' one
    done
}

@test "every command that takes options has two examples" {
    for c in run start exec ps inspect logs stats stop signal destroy rm cp "files ls" "files cat" "files write" "files stat" \
        "files mkdir" "files rm" "files mv" "files watch" "snapshot create" "snapshot list" "snapshot rm" doctor version completion; do
        # shellcheck disable=SC2086
        [ "$(cloister help $c | grep -c -A99 '^Examples' | head -1)" != 0 ]
        # shellcheck disable=SC2086
        [ "$(cloister help $c | sed -n '/^Examples/,$p' | grep -c '^  [a-z]')" -ge 2 ]
    done
}

@test "no line of help is wider than 120" {
    for c in $commands "files ls" "files write" "snapshot create"; do
        # shellcheck disable=SC2086
        [ "$(cloister help $c | awk '{ if (length($0) > n) n = length($0) } END { print n }')" -le 120 ]
    done
}

@test "no colours into a pipe, none with NO_COLOR" {
    unset NO_COLOR
    run -0 cloister help run
    [[ $output != *$'\e'* ]]
    run -0 script -qec "$CLOISTER help run" /dev/null </dev/null
    [[ $output == *$'\e[1m'* ]]
    run -0 script -qec "NO_COLOR=1 $CLOISTER help run" /dev/null </dev/null
    [[ $output != *$'\e'* ]]
}

@test "an unknown command is named, with the nearest" {
    run --separate-stderr -125 cloister rnu
    [ "$output" = "" ]
    [[ $stderr == *'"rnu"'*'"run"'* ]]
    run --separate-stderr -125 cloister files lss
    [[ $stderr == *'"files lss"'*'"files ls"'* ]]
    run --separate-stderr -125 cloister frobnicate
    [[ $stderr == *frobnicate* && $stderr != *"did you mean"* ]]
}

@test "an unknown option is named, with the nearest" {
    run --separate-stderr -125 cloister run --memroy 1G -- true
    [ "$output" = "" ]
    [[ $stderr == *'"--memroy"'*'"--memory"'* ]]
    run --separate-stderr -125 cloister run -Z -- true
    [[ $stderr == *'"-Z"'* ]]
    run --separate-stderr -125 cloister ps --memory=1
    [[ $stderr == *'"--memory"'* ]]
}

@test "a missing value and a superfluous one are named" {
    run --separate-stderr -125 cloister run --memory
    [[ $stderr == *"--memory"*"needs a value"* ]]
    run --separate-stderr -125 cloister run --memory --quiet -- true
    [[ $stderr == *"--memory"*"needs a value"* ]]
    run --separate-stderr -125 cloister run --quiet=yes -- true
    [[ $stderr == *"--quiet"*"takes no value"* ]]
}

@test "too few and too many operands are named" {
    run --separate-stderr -125 cloister cp one
    [[ $stderr == *"too few"* ]]
    run --separate-stderr -125 cloister inspect one two
    [[ $stderr == *'"two"'* ]]
}

@test "help of what does not exist" {
    run --separate-stderr -125 cloister help frobnicate
    [[ $stderr == *frobnicate* ]]
    run --separate-stderr -125 cloister help files frobnicate
    [[ $stderr == *"files frobnicate"* ]]
    run --separate-stderr -125 cloister help run frobnicate
    [[ $stderr == *"run frobnicate"* ]]
}

@test "the version, for people and programs" {
    run -0 cloister version
    [[ $output =~ ^cloister\ [0-9]+\.[0-9]+ ]]
    run -0 cloister --version
    [[ $output =~ ^cloister ]]
    cloister version --json | python3 -c 'import json,sys; assert json.load(sys.stdin)["api"] == "v1"'
}

@test "control characters in a word do not reach the terminal" {
    run --separate-stderr -125 cloister $'\e[31mx'
    [[ $stderr != *$'\e'* && $stderr == *'\x1b'* ]]
}

@test "a full disk under help is a failure" {
    run -125 bash -c '"$CLOISTER" help >/dev/full'
}
