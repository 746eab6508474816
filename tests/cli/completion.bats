#!/usr/bin/env bats
# Completion scripts, run by the shell they are for.
load common

setup_file() { cli_setup_file; }
setup() { cli_setup; }

# What bash would offer for these words, the last of them being completed.
offers() {
    bash -c '
        source <("$CLOISTER" completion bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _cloister
        printf "%s\n" "${COMPREPLY[@]}"' _ "$@"
}

@test "bash: commands, options, words, files" {
    run -0 offers cloister do
    [ "$output" = doctor ]
    run -0 offers cloister run --mem
    [ "$output" = --memory ]
    run -0 offers cloister completion ""
    [ "$output" = $'bash\nzsh\nfish' ]
    run -0 offers cloister files mk
    [ "$output" = mkdir ]
    run -0 offers cloister files ls --rec
    [ "$output" = --recursive ]
    mkdir some-dir
    run -0 offers cloister run --data-dir some-
    [ "$output" = some-dir ]
    run -0 offers cloister run --image ho
    [ "$output" = host ]
}

@test "bash: every option of every command is offered" {
    for c in run start exec ps logs stop cp doctor; do
        offers cloister "$c" -- >offered
        cloister help "$c" | grep -oE -- '^ +(-[a-z], +)?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u >documented
        sort -u offered >sorted
        [ -z "$(comm -23 documented sorted)" ]
    done
}

@test "zsh reads its script" {
    command -v zsh >/dev/null || skip "no zsh"
    cloister completion zsh >_cloister
    zsh -n _cloister
    zsh -fc 'autoload -Uz compinit; compinit -u -D; source ./_cloister; [ "${_comps[cloister]}" = _cloister ]'
}

@test "zsh: the script names every command" {
    cloister completion zsh >_cloister
    grep -q "^#compdef cloister" _cloister
    for c in run exec doctor snapshot; do grep -q "'$c:" _cloister; done
}

@test "fish reads its script" {
    command -v fish >/dev/null || skip "no fish"
    cloister completion fish >c.fish
    fish -n c.fish
    [ "$(fish --no-config -c 'source c.fish; complete -C "cloister doc"' | cut -f1)" = doctor ]
    [ "$(fish --no-config -c 'source c.fish; complete -C "cloister run --mem"' | cut -f1)" = --memory ]
}

@test "fish: a line per option" {
    cloister completion fish >c.fish
    grep -q "from run'.* -l memory -s m" c.fish
    grep -q "from files; and __fish_seen_subcommand_from ls'.* -l recursive" c.fish
}

@test "another shell is refused" {
    run --separate-stderr -125 cloister completion tcsh
    [ "$output" = "" ]
    [[ $stderr == *tcsh* ]]
}
