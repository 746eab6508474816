#!/usr/bin/env bats
bats_require_minimum_version 1.5.0
# cloister-image from outside: fetching, importing, refusing, surviving. CLOISTER_IMAGE is the program under test.

setup_file() {
    export IMAGE=${CLOISTER_IMAGE:-cloister-image}
    export LAYOUT="python3 $BATS_TEST_DIRNAME/../image/layout.py"
    REGISTRY_DIR=$(mktemp -d)
    export REGISTRY_DIR
    REGISTRY_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export REGISTRY=127.0.0.1:$REGISTRY_PORT
    cat >"$REGISTRY_DIR/config.yml" <<END
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $REGISTRY_DIR/store}}
http: {addr: "$REGISTRY"}
END
    docker-registry serve "$REGISTRY_DIR/config.yml" >"$REGISTRY_DIR/log" 2>&1 3>&- &
    echo $! >"$REGISTRY_DIR/pid"
    for _ in $(seq 100); do
        python3 -c "import urllib.request as u; u.urlopen('http://$REGISTRY/v2/', timeout=1)" 2>/dev/null && break
        sleep 0.1
    done
    $LAYOUT small "$REGISTRY_DIR/small"
    $LAYOUT platforms "$REGISTRY_DIR/platforms"
    skopeo copy -q --insecure-policy --dest-tls-verify=false "oci:$REGISTRY_DIR/small" "docker://$REGISTRY/test/small:1"
    skopeo copy -q --insecure-policy --dest-tls-verify=false --all "oci:$REGISTRY_DIR/platforms" "docker://$REGISTRY/test/platforms:1"
}

teardown_file() {
    kill "$(cat "$REGISTRY_DIR/pid")"
    rm -rf "$REGISTRY_DIR"
}

setup() {
    T=$(mktemp -d)
    export CLOISTER_DATA_DIR=$T/data
    mkdir -m 700 "$T/data"
}

teardown() {
    chmod -R u+rwx "$T"
    rm -rf "$T"
}

# The program must fail with its own status, one line on standard error that holds $1, and leave nothing behind.
refused() {
    local words=$1
    shift
    run --separate-stderr "$@"
    [ "$status" -eq 125 ] || { echo "status $status: $output $stderr"; return 1; }
    [ -z "$output" ] || { echo "standard output: $output"; return 1; }
    [ "$(printf '%s\n' "$stderr" | grep -cv '^note: ')" -eq 1 ] || { echo "not one line: $stderr"; return 1; }
    [[ $stderr == *"$words"* ]] || { echo "\"$words\" is not in: $stderr"; return 1; }
    nothing_left
}

nothing_left() {
    [ -z "$(ls "$T/data/tmp" "$T/data/refs" "$T/data/images" | grep -v :$)" ]
}

# Absolute layer directories, topmost first, as overlayfs wants them.
layers() {
    $IMAGE inspect "$1" --json | python3 -c '
import json, sys
print(":".join("%s/layers/%s/fs" % (sys.argv[1], l) for l in reversed(json.load(sys.stdin)["layers"])))' "$T/data"
}

# Runs a command in the image's merged tree.
inside() {
    local image=$1
    shift
    mkdir -p "$T/m" "$T/u" "$T/w"
    unshare -rm sh -ec 'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/u,workdir=$2/w,userxattr" "$2/m"; cd "$2/m"; shift 2; "$@"' \
        sh "$(layers "$image")" "$T" "$@"
}

@test "pull: from a registry, verified, under its own name" {
    run --separate-stderr $IMAGE pull "$REGISTRY/test/small:1"
    [ "$status" -eq 0 ]
    [ "$output" = "$REGISTRY/test/small:1" ]
    [ "$(inside "$REGISTRY/test/small:1" cat bin/app)" = hello ]
    $IMAGE inspect "$REGISTRY/test/small:1" --json | python3 -c '
import json, sys
c = json.load(sys.stdin)["config"]
assert c == {"env": ["PATH=/bin", "A=b"], "entrypoint": ["/bin/app"], "cmd": ["--serve"], "cwd": "/srv", "user": "7:8"}, c'
    [ -z "$(ls "$T/data/tmp")" ]
}

@test "pull: --name, by digest, again without work" {
    $IMAGE pull --name mine "$REGISTRY/test/small:1"
    digest=$(skopeo inspect --tls-verify=false "docker://$REGISTRY/test/small:1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Digest"])')
    run --separate-stderr $IMAGE pull --json "$REGISTRY/test/small:1@$digest"
    [ "$status" -eq 0 ]
    [[ $output == *'"layersReused":2'* ]]
    run $IMAGE list -q
    [ "${lines[0]}" = "$REGISTRY/test/small:1@$digest" ]
    [ "${lines[1]}" = host ]
    [ "${lines[2]}" = mine:latest ]
}

@test "pull: the right platform of several" {
    $IMAGE pull --name p "$REGISTRY/test/platforms:1"
    [ "$(inside p ls)" = ours ]
    $IMAGE import "$REGISTRY_DIR/platforms" --name q
    [ "$(inside q ls)" = ours ]
}

@test "pull: progress as JSON ends with the image or the error" {
    run --separate-stderr $IMAGE pull --progress json "$REGISTRY/test/small:1"
    [ "$status" -eq 0 ]
    printf '%s\n' "${lines[@]}" | python3 -c '
import json, sys
events = [json.loads(l) for l in sys.stdin]
assert events[-1]["event"] == "done" and events[-1]["image"]["layers"] == 2, events
assert any(e["event"] == "progress" and e["stage"] == "fetch" for e in events), events'
    run --separate-stderr $IMAGE pull --progress json "$REGISTRY/test/absent:1"
    [ "$status" -eq 125 ]
    printf '%s\n' "${lines[@]}" | tail -1 | python3 -c '
import json, sys
e = json.load(sys.stdin)
assert e["event"] == "error" and e["error"]["code"] == "NOT_FOUND" and "skopeo" in e["error"]["message"], e'
}

@test "pull: what is not there, not reachable, not a name" {
    refused "skopeo failed" $IMAGE pull "$REGISTRY/test/absent:1"
    refused "no image name" $IMAGE pull -- --help
    refused "no image name" $IMAGE pull "../../etc/passwd"
    refused "built in" $IMAGE pull host
}

@test "import: layout, archives of every kind, standard input" {
    $LAYOUT small "$T/small"
    $IMAGE import "$T/small"
    tar -C "$T/small" -cf "$T/oci.tar" .
    $IMAGE import "$T/oci.tar" --name fromtar
    gzip -c "$T/oci.tar" | $IMAGE import - --name frompipe
    skopeo copy -q --insecure-policy "oci:$T/small" "docker-archive:$T/docker.tar:made/by:docker"
    run $IMAGE import "$T/docker.tar"
    [ "$output" = made/by:docker ]
    ids=$($IMAGE list --json | python3 -c 'import json, sys; print(len({i["id"] for i in json.load(sys.stdin)["images"] if i["id"] != "host"}))')
    [ "$ids" -eq 1 ]
    mkdir "$T/root"
    echo text >"$T/root/file"
    for how in cf czf cJf "c --zstd -f"; do
        tar -C "$T/root" -$how "$T/root.tar" .
        $IMAGE import "$T/root.tar" --name plain
        [ "$(inside plain cat file)" = text ]
    done
    $LAYOUT sha512 "$T/s512"
    $IMAGE import "$T/s512"
    [ "$(inside s512 cat a)" = 1 ]
}

@test "C009: deleted, then made again over three layers" {
    $LAYOUT c009 "$T/c009"
    $IMAGE import "$T/c009"
    [ "$(inside c009 find . -type f | sort | xargs)" = "./cache/b.txt ./conf/c.txt" ]
}

@test "D4: an opaque root hides every layer below" {
    $LAYOUT opaque_root "$T/o"
    $IMAGE import "$T/o"
    [ "$(inside o ls)" = new ]
}

@test "C011: path tricks" {
    mkdir "$T/outside"
    for entry in up peek; do
        $LAYOUT c011 "$T/$entry" $entry "$T/outside"
        refused "leads upwards" $IMAGE import "$T/$entry"
    done
    for entry in door absolute kept; do
        $LAYOUT c011 "$T/$entry" $entry "$T/outside"
        $IMAGE import "$T/$entry"
    done
    [ -z "$(ls "$T/outside")" ]
    [ "$(inside absolute cat abs.txt)" = c ]
    [ "$(inside kept readlink lib64)" = ../../../usr/lib ]
    [ "$(inside kept cat usr/lib/x.so)" = d ]
}

@test "D6, D8: bombs end in an error that names the limit" {
    $LAYOUT bomb "$T/bomb" 300
    refused "decompression bomb" env CLOISTER_IMAGE_RATIO=500 $IMAGE import "$T/bomb"
    refused "more than the limit of 10485760 bytes" env CLOISTER_IMAGE_LAYER_BYTES=10M $IMAGE import "$T/bomb"
    $LAYOUT sparse "$T/sparse"
    refused "more than the limit of 34359738368 bytes" $IMAGE import "$T/sparse"
    $LAYOUT many "$T/many" 2000
    refused "more than the limit of 1000 entries" env CLOISTER_IMAGE_LAYER_ENTRIES=1000 $IMAGE import "$T/many"
    refused "2 layers, more than the limit of 1" env CLOISTER_IMAGE_LAYERS=1 $IMAGE import "$REGISTRY_DIR/small"
    refused "the image's limit of 5 bytes" env CLOISTER_IMAGE_IMAGE_BYTES=5 $IMAGE import "$REGISTRY_DIR/small"
    [ -z "$(find "$T/data/layers" -name zeros -o -name huge)" ]
    $IMAGE import "$T/many"
    [ "$(inside many ls | wc -l)" -eq 2000 ]
}

@test "D9: every blob is verified" {
    for what in manifest config; do
        $LAYOUT wrong "$T/$what" $what
        refused "does not have the size and digest" $IMAGE import "$T/$what"
    done
    $LAYOUT wrong "$T/layer" layer
    refused "do not have the digest" $IMAGE import "$T/layer"
    $LAYOUT wrong "$T/size" size
    refused "its description says" $IMAGE import "$T/size"
    $LAYOUT wrong "$T/diff" diff
    refused "diff id" $IMAGE import "$T/diff"
}

@test "D10: an index in an index in an index" {
    $LAYOUT index_loop "$T/loop"
    refused "further index" $IMAGE import "$T/loop"
}

@test "broken archives" {
    head -c 100000 /dev/urandom >"$T/noise.tar"
    refused "not" $IMAGE import "$T/noise.tar"
    $LAYOUT small "$T/small"
    tar -C "$T/small" -czf "$T/cut.tar.gz" .
    truncate -s 300 "$T/cut.tar.gz"
    refused "" $IMAGE import "$T/cut.tar.gz"
    mkdir "$T/empty"
    refused "not an OCI layout" $IMAGE import "$T/empty"
    refused "cannot open" $IMAGE import "$T/absent"
}

@test "killed at any moment: wholly there or not at all" {
    $LAYOUT big "$T/big" 20
    for delay in 0.01 0.03 0.05 0.08 0.12 0.17 0.25; do
        $IMAGE import "$T/big" >/dev/null 2>&1 3>&- &
        pid=$!
        sleep $delay
        kill -9 $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        for layer in "$T"/data/layers/*; do
            [ ! -e "$layer" ] || [ -e "$layer/layer.json" ]
        done
        if $IMAGE inspect big >/dev/null 2>&1; then
            [ "$(inside big find . -type f | wc -l)" -eq 200 ]
            $IMAGE rm big
        fi
        $IMAGE gc --grace 0s
        [ -z "$(ls "$T/data/tmp" "$T/data/layers" | grep -v :$)" ]
    done
    $IMAGE import "$T/big"
    [ "$(inside big find . -type f | wc -l)" -eq 200 ]
}

@test "snapshot layers: packed, verified, brought back; a killed one leaves nothing" {
    mkdir "$T/upper"
    for i in $(seq 200); do head -c 20000 /dev/urandom >"$T/upper/$i"; done
    run --separate-stderr $IMAGE snapshot-pack --upper "$T/upper"
    [ "$status" -eq 0 ]
    digest=$(printf '%s' "$output" | python3 -c 'import json, sys; print(json.load(sys.stdin)["digest"])')
    for delay in 0.005 0.01 0.02 0.03; do
        $IMAGE layer-add --digest "$digest" >/dev/null 2>&1 3>&- &
        pid=$!
        sleep $delay
        kill -9 $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        [ ! -e "$T/data/layers/$digest" ] || diff -r "$T/upper" "$T/data/layers/$digest/fs"
        rm -rf "$T/data/layers/$digest"
        $IMAGE snapshot-pack --upper "$T/upper" >/dev/null 2>&1 3>&- &
        pid=$!
        sleep $delay
        kill -9 $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        [ "$(sha256sum <"$T/data/blobs/sha256/$digest")" = "$digest  -" ]
    done
    $IMAGE layer-add --digest "$digest"
    diff -r "$T/upper" "$T/data/layers/$digest/fs"
    $IMAGE gc --grace 0s
    [ -z "$(ls "$T/data/tmp" "$T/data/layers" "$T/data/blobs/sha256" | grep -v :$)" ]
}

@test "snapshot layers: read with the rights of the container's root, owners as it sees them" {
    mkdir "$T/upper"
    echo 1 >"$T/upper/mine"
    run --separate-stderr python3 "$BATS_TEST_DIRNAME/../image/userns.py" $IMAGE "$T/data" "$T/upper"
    [ "$status" -eq 0 ]
    digest=$(printf '%s' "$output" | python3 -c 'import json, sys; print(json.load(sys.stdin)["digest"])')
    [ "$(zstd -dc "$T/data/blobs/sha256/$digest" | tar --numeric-owner -tv | awk '{print $2}' | sort -u)" = 0/0 ]
    # The same owners come out when layers are merged, which needs other means.
    $IMAGE layer-add --digest "$digest"
    run --separate-stderr python3 "$BATS_TEST_DIRNAME/../image/userns.py" $IMAGE "$T/data" "$T/upper" "$T/data/layers/$digest/fs"
    [ "$status" -eq 0 ]
    [[ $output == *"$digest"* ]]
    # What is not the container's is not read for it, even by root.
    if [ "$(id -u)" -eq 0 ]; then
        echo secret >"$T/upper/foreign"
        chmod 600 "$T/upper/foreign"
        chown 1:1 "$T/upper/foreign"
        run python3 "$BATS_TEST_DIRNAME/../image/userns.py" $IMAGE "$T/data" "$T/upper"
        [ "$status" -eq 125 ]
        [[ $output == *'cannot open "foreign": Permission denied'* ]]
    fi
}

@test "rm, gc and aliases" {
    $IMAGE import "$REGISTRY_DIR/small" --name one
    $IMAGE alias cloudflare/debian-trixie one
    [ "$(inside cloudflare/debian-trixie cat etc/conf)" = x ]
    run $IMAGE alias cloudflare/debian-trixie
    [ "$status" -eq 125 ]
    $IMAGE alias --remove cloudflare/debian-trixie
    run $IMAGE inspect cloudflare/debian-trixie
    [ "$status" -eq 125 ]
    $IMAGE rm one
    run $IMAGE rm one
    [ "$status" -eq 125 ]
    $IMAGE gc --grace 0s
    [ -z "$(ls "$T/data/layers" "$T/data/images")" ] || [ "$(ls "$T/data/layers" "$T/data/images" | grep -cv -e :$ -e '^$')" -eq 0 ]
}

@test "help and wrong usage" {
    run $IMAGE --help
    [ "$status" -eq 0 ]
    for command in pull import build-base list inspect rm alias gc layer-add snapshot-pack snapshot-from-tar; do
        run --separate-stderr $IMAGE $command --help
        [ "$status" -eq 0 ]
        [[ $output == "Usage: cloister image $command"* ]]
    done
    refused "no command" $IMAGE frobnicate
    $IMAGE list >/dev/null
    refused "does not know the option --frob" $IMAGE list --frob
    refused "does not take --name" $IMAGE list --name x
    refused "something is missing" $IMAGE import
    refused "expected json, plain or none" $IMAGE list --progress loud
    refused "suite" $IMAGE build-base --suite '../x'
    refused "package names" $IMAGE build-base --include 'a b;c'
    refused "digest" $IMAGE layer-add --digest ../../etc/passwd
    refused "pattern" $IMAGE snapshot-pack --upper "$T" --exclude ../x
}
