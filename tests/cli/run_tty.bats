#!/usr/bin/env bats
# `cloister run -t`: script(1) provides the caller's terminal.
load common

setup_file() { cli_setup_file; }
setup() { cli_setup; }

on_terminal() {
    timeout 20 script -qec "$1" /dev/null </dev/null | tr -d '\r\000'
}

@test "the command has a terminal and TERM" {
    run -0 on_terminal "TERM=vt220 $CLOISTER run -t -- sh -c 'tty; echo \$TERM'"
    [[ $output == */dev/pts/* && $output == *vt220* ]]
}

@test "the exit code comes through" {
    run -3 bash -c "timeout 20 script -qec '$CLOISTER run -t -- sh -c \"exit 3\"' /dev/null </dev/null"
}

@test "its size is the caller's" {
    run -0 on_terminal "stty cols 101 rows 37; $CLOISTER run -t -- stty size"
    [[ $output == *"37 101"* ]]
}

@test "the terminal is as it was on every way out" {
    for command in "$CLOISTER run -t -- true" "$CLOISTER run -t -- sh -c 'exit 9'" "$CLOISTER run -t -- sh -c 'kill -9 \$\$'" \
        "$CLOISTER run -t -- no-such" "$CLOISTER run -t --timeout 300ms -- sleep 9"; do
        run -0 on_terminal "stty -g >before; $command; stty -g >after"
        cmp before after
    done
}

@test "the terminal is as it was when SIGTERM ends it" {
    run -0 on_terminal "stty -g >before; timeout --foreground 1 $CLOISTER run -t -- sleep 9; stty -g >after"
    cmp before after
}

@test "-t without a terminal still works, and end of input is end of input" {
    run -5 bash -c 'printf "echo hi\nexit 5\n" | timeout 20 "$CLOISTER" run -t -- sh'
    [[ $output == *hi* ]]
}

@test "-t and --json exclude each other" {
    run --separate-stderr -125 cloister run -t --json -- true
    [[ $stderr == *"--tty"*"--json"* ]]
}
