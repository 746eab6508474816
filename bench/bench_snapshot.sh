#!/bin/bash
# Snapshot of 1,000 changed files (50 MB) and its restore, against tar | zstd -1 of the same files. Absolute times mislead on a
# slow or busy machine; the ratio of runs taken in turns does not.
# usage: bench_snapshot.sh CLOISTER-IMAGE [ROUNDS]
set -euo pipefail
tool=$1
rounds=${2:-5}
work=$(mktemp -d "${TMPDIR:-/tmp}/bench-snapshot.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/upper"

# Text-like files: 50,000 bytes each, compressible about as well as sources are.
python3 - "$work/upper" <<'PY'
import os, random, sys
r = random.Random(1)
words = [bytes(r.choice(b"abcdefghijklmnopqrstuvwxyz_(){};") for _ in range(r.randint(2, 12))) for _ in range(4000)]
for i in range(1000):
    d = os.path.join(sys.argv[1], "d%02d" % (i % 50))
    os.makedirs(d, exist_ok=True)
    with open(os.path.join(d, "f%04d" % i), "wb") as f:
        f.write(b" ".join(r.choices(words, k=8000))[:50000])
PY

now() { date +%s%N; }
pack_ours() { "$tool" snapshot-pack --data-dir "$data" --upper "$work/upper" >"$work/packed.json"; }
pack_tar() { tar -C "$work/upper" -cf - . | zstd -q -1 -f -o "$work/tar.zst"; }
restore_ours() { "$tool" layer-add --data-dir "$data" --digest "$digest" >"$work/added.json"; }
restore_tar() { mkdir "$out" && zstd -q -dc "$work/tar.zst" | tar -C "$out" -xf -; }

timed() { # name of the list, command
    local start end
    start=$(now)
    "$2"
    end=$(now)
    echo $(((end - start) / 1000)) >>"$work/$1"
}

# Nothing is deleted between the rounds: ext4 avoids the inodes of recently deleted files, at great cost for whoever comes next.
for ((i = 0; i < rounds; i++)); do
    data=$work/data$i out=$work/out$i
    mkdir -m 700 "$data"
    timed pack_tar pack_tar
    timed pack_ours pack_ours
    digest=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["digest"])' "$work/packed.json")
    timed restore_tar restore_tar
    timed restore_ours restore_ours
    diff -r "$work/upper" "$data/layers/$digest/fs"
done

python3 - "$work" <<'PY'
import statistics, sys
def m(n): return statistics.median(int(x) for x in open(sys.argv[1] + "/" + n))
for what in ("pack", "restore"):
    ours, peer = m(what + "_ours"), m(what + "_tar")
    print("snapshot %-8s %6.1f ms, tar|zstd -1 %6.1f ms, ratio %.2f (must be < 1)" % (what, ours / 1000, peer / 1000, ours / peer))
PY
