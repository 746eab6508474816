// The natives themselves, as a program would call them that got hold of them: no argument may crash the process.
const { crypto: natives, zlib } = __shell.natives;

test("no native minds what it is given", () => {
  const odd = [undefined, null, 0, -1, 1.5, NaN, Infinity, 1e300, 2 ** 53, "", "text", Symbol.iterator, true, {}, [], () => {}, new Uint8Array(0), new Uint8Array(16),
    new Uint8Array(100000), new ArrayBuffer(8), new Float64Array(4), new DataView(new ArrayBuffer(4)), natives.secret(new Uint8Array(16)), natives.digestNew(0),
    zlib.open(true, 0), natives.keyGenerate(5), natives.keyGenerate(2), natives.keyPublic(natives.keyGenerate(2)), new Proxy(new Uint8Array(4), {}), 5n];
  const detached = new Uint8Array(8);
  detached.buffer.transfer();
  const resized = new Uint8Array(new ArrayBuffer(8, { maxByteLength: 16 }), 4);
  resized.buffer.resize(2);
  odd.push(detached, resized);
  let state = 1;
  const random = (n) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state % n;
  };
  let calls = 0, threw = 0;
  for (const [group, functions] of [["crypto", natives], ["zlib", zlib]]) {
    for (const name of Object.keys(functions)) {
      for (let i = 0; i < 400; i++) {
        const args = [];
        for (let j = random(9); j > 0; j--) args.push(random(3) === 0 ? random(8) : odd[random(odd.length)]);
        if (name === "keyGenerate" && args[0] === 1) continue; // takes its time
        if (name === "scrypt" || name === "pbkdf2") args.length = Math.min(args.length, 6);
        calls++;
        try {
          functions[name](...args);
        } catch (error) {
          threw++;
          if (!(error instanceof Error)) throw new Error(`${group}.${name} threw ${String(error)}`);
        }
      }
    }
  }
  if (threw < calls / 3) throw new Error(`only ${threw} of ${calls} were refused`);
});

test("handles of one kind are not taken for another", async () => {
  const key = natives.secret(new Uint8Array(16)), digest = natives.digestNew(3), stream = zlib.open(false, 0);
  const wrong = "TypeError: a handle of another kind is expected";
  await refused(() => natives.digestUpdate(key, new Uint8Array(1)), wrong);
  await refused(() => natives.keyBits(digest), wrong);
  await refused(() => natives.keyBits(stream), wrong);
  await refused(() => zlib.pull(key, false), wrong);
  await refused(() => natives.keyBits(Object.create(key)), wrong);
  await refused(() => natives.keyBits(new Proxy(key, {})), wrong);
  zlib.close(stream);
  await refused(() => zlib.pull(stream, false), wrong);
  await refused(() => zlib.close(stream), wrong);
  equal(natives.keyBits(key), 128);
});

test("a finished hash says so", async () => {
  const digest = natives.digestNew(3, new Uint8Array(0));
  equal(new Uint8Array(natives.digestFinish(digest)).length, 32);
  for (const name of ["digestFinish", "digestCopy"]) await refused(() => natives[name](digest), "Error: the hash is finished");
  await refused(() => natives.digestUpdate(digest, new Uint8Array(1)), "Error: the hash is finished");
});

test("secrets and streams are given back", () => {
  const before = __shell.natives.memory().heapBytes;
  for (let i = 0; i < 2000; i++) {
    zlib.open(true, 0);
    natives.secret(new Uint8Array(60000));
  }
  equal(typeof before, "number");
});
