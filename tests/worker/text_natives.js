// Text in and out of the engine: which of the ways is taken depends on what the text consists of.
const natives = __shell.natives;

/** The same, a unit at a time. */
const slowUtf8 = (text) => {
  const out = [];
  for (const c of text.toWellFormed()) {
    const n = c.codePointAt(0);
    if (n < 0x80) out.push(n);
    else if (n < 0x800) out.push(0xc0 | n >> 6, 0x80 | n & 63);
    else if (n < 0x10000) out.push(0xe0 | n >> 12, 0x80 | n >> 6 & 63, 0x80 | n & 63);
    else out.push(0xf0 | n >> 18, 0x80 | n >> 12 & 63, 0x80 | n >> 6 & 63, 0x80 | n & 63);
  }
  return new Uint8Array(out);
};
const latin1 = Array.from({ length: 256 }, (v, i) => String.fromCharCode(i)).join("");
const texts = ["", "a", "\0", "a\0b", "plain", "\x7f", "\x80", "\u00e9t\u00e9", latin1, "\u0416wide", "\ud83d\ude00", "lone \ud800 surrogate", "\udc00",
  "wide \u0416".slice(0, 4), "\u0416 narrow rope " + latin1, "x".repeat(100000), latin1.repeat(1000), "\u0416".repeat(70000)];

test("UTF-8 both ways", () => {
  for (const text of texts) {
    const encoded = new Uint8Array(natives.utf8Encode(text));
    equal(hex(encoded), hex(slowUtf8(text)), `UTF-8 of ${text.length} units`);
    equal(natives.utf8Decode(encoded, 0, encoded.length, true), text.toWellFormed(), "decoded");
  }
});

test("a part of the bytes is decoded", () => {
  const bytes = new Uint8Array([0x61, 0, 0x62, 0xc3, 0xa9]);
  equal(natives.utf8Decode(bytes, 1, 3, true), "\0b");
  equal(natives.utf8Decode(bytes, 2, 2, true), "");
  equal(natives.utf8Decode(bytes, 2, 5, true), "b\u00e9");
  equal(natives.utf8Decode(bytes, 0, 4, false), "a\0b\ufffd");
  equal(natives.latin1Decode(bytes, 1, 5), "\0b\u00c3\u00a9");
});

test("Latin-1 both ways", () => {
  for (const text of ["", "\0", "plain", latin1, latin1.repeat(1000)]) {
    const encoded = new Uint8Array(natives.latin1Encode(text));
    equal(encoded.length, text.length, "length");
    equal(natives.latin1Decode(encoded, 0, encoded.length), text, "decoded");
  }
});

test("a decoded string is one like any other", () => {
  const text = natives.utf8Decode(new Uint8Array([0x6b, 0x65, 0x79]), 0, 3, true);
  equal({ key: 1 }[text], 1);
  equal(new Map([["key", 2]]).get(text), 2);
  equal(text + "\u0416", "key\u0416");
  equal(JSON.parse(natives.utf8Decode(bytes('{"a":[1]}'), 0, 9, true)).a[0], 1);
});

test("a megabyte is copied, not converted", () => {
  const large = new Uint8Array(1 << 20).fill(0x61);
  const best = (run) => {
    let least = Infinity;
    for (let i = 0; i < 20; i++) {
      const begin = Date.now();
      for (let j = 0; j < 4; j++) run();
      least = Math.min(least, (Date.now() - begin) / 4);
    }
    return least;
  };
  const wide = large.slice();
  wide.set([0xd0, 0x96], wide.length - 2);
  const decode = (from) => best(() => natives.utf8Decode(from, 0, from.length, true));
  const text = natives.utf8Decode(large, 0, large.length, true), wideText = natives.utf8Decode(wide, 0, wide.length, true);
  const encode = (from) => best(() => natives.utf8Encode(from));
  const times = [decode(large), decode(wide), encode(text), encode(wideText)];
  if (times[0] * 2 > times[1] || times[2] * 2 > times[3]) throw new Error(`ms, copied and converted: ${times}`);
});
