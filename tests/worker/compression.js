// CompressionStream and DecompressionStream.
const FORMATS = ["gzip", "deflate", "deflate-raw"];

async function through(stream, ...chunks) {
  const writer = stream.writable.getWriter();
  const wrote = (async () => {
    for (const chunk of chunks) await writer.write(chunk);
    await writer.close();
  })();
  wrote.catch(() => {});
  const parts = [];
  let size = 0;
  for (const reader = stream.readable.getReader(); ;) {
    const { value, done } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  await wrote;
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

test("what is packed comes back", async () => {
  const text = bytes("the quick brown fox ".repeat(10000));
  for (const format of FORMATS) {
    const packed = await through(new CompressionStream(format), text.subarray(0, 1000), new Uint8Array(0), text.subarray(1000));
    if (packed.length > 5000) throw new Error(`${format}: ${packed.length}`);
    const pieces = [];
    for (let i = 0; i < packed.length; i += 7) pieces.push(packed.slice(i, i + 7));
    equal(hex(await through(new DecompressionStream(format), ...pieces)) === hex(text), true, format);
  }
});

test("gzip (RFC 1952) of others is read", async () => {
  const hello = unhex("1f8b0800000000000003cb48cdc9c95728cf2fca49010085114a0d0b000000");
  equal(new TextDecoder().decode(await through(new DecompressionStream("gzip"), hello)), "hello world");
});

test("faults", async () => {
  for (const format of FORMATS) {
    const packed = await through(new CompressionStream(format), bytes("hello hello"));
    await refused(() => through(new DecompressionStream(format), new Uint8Array([...packed, 0])), "TypeError: there is data after the end of the compressed data");
    await refused(() => through(new DecompressionStream(format), packed, new Uint8Array(1)), "TypeError: there is data after the end of the compressed data");
    await refused(() => through(new DecompressionStream(format), packed.slice(0, -1)), "TypeError: the compressed data is not complete");
    await refused(() => through(new DecompressionStream(format)), "TypeError: the compressed data is not complete");
    await refused(() => through(new DecompressionStream(format), new Uint8Array(64).fill(255)), "TypeError: the compressed data is malformed");
    equal(new TextDecoder().decode(await through(new DecompressionStream(format), packed)), "hello hello");
  }
  await refused(() => new CompressionStream("brotli"), "TypeError: CompressionStream: brotli is not a compression format");
  await refused(() => new DecompressionStream("constructor"), "TypeError: DecompressionStream: constructor is not a compression format");
  await refused(() => new DecompressionStream(), "TypeError: DecompressionStream: 1 argument required, but only 0 present");
  await refused(() => through(new CompressionStream("gzip"), "text"), "TypeError: chunk is neither an ArrayBuffer nor a view of one");
});

test("what came before a fault is given", async () => {
  const packed = await through(new CompressionStream("deflate"), bytes("hello"));
  const stream = new DecompressionStream("deflate"), writer = stream.writable.getWriter(), reader = stream.readable.getReader();
  writer.write(packed).catch(() => {});
  equal(new TextDecoder().decode((await reader.read()).value), "hello");
  writer.closed.catch(() => {});
  await refused(() => writer.write(new Uint8Array(1)), "TypeError: there is data after the end of the compressed data");
  await refused(() => reader.read(), "TypeError: there is data after the end of the compressed data");
});

test("a bomb unpacks no faster than it is read", async () => {
  const zeros = new Uint8Array(1 << 20), packer = new CompressionStream("gzip");
  const packed = await through(packer, ...new Array(64).fill(zeros)); // 64 MiB
  const stream = new DecompressionStream("gzip"), writer = stream.writable.getWriter();
  let written = false;
  writer.write(packed).then(() => { written = true; }, () => {});
  await new Promise((resolve) => setTimeout(resolve, 20));
  equal(written, false, "written");
  const reader = stream.readable.getReader();
  const first = await reader.read();
  equal(first.value.length <= 65536, true);
  await reader.cancel("enough");
  await refused(() => writer.closed.then(() => 0, (reason) => { throw new Error(reason); }), "Error: enough");
});

test("cancelling and aborting end both ends", async () => {
  const stream = new CompressionStream("gzip");
  await stream.writable.abort(new RangeError("no"));
  await refused(() => stream.readable.getReader().read(), "RangeError: no");
  for (let i = 0; i < 1000; i++) new CompressionStream("gzip").readable.cancel();
});

test("a few bytes may be written before anybody reads", async () => {
  const stream = new CompressionStream("gzip"), writer = stream.writable.getWriter();
  await writer.write(bytes("hello"));
  await writer.close();
  const packed = (await stream.readable.getReader().read()).value;
  equal(hex(packed).slice(0, 6), "1f8b08");
});
