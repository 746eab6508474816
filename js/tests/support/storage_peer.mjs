/** The daemon's storage in a process of its own (tests/app/storage_peer.c), called synchronously. CLOISTER_STORAGE_PEER names the program. */
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export class StoragePeer {
  constructor() {
    this.dir = mkdtempSync(path.join(tmpdir(), 'cloister-js-'));
    this.open();
  }

  open() {
    const pipes = [path.join(this.dir, 'calls'), path.join(this.dir, 'answers')];
    for (const pipe of pipes) rmSync(pipe, { force: true });
    execFileSync('mkfifo', pipes);
    this.child = spawn('sh', ['-c', 'exec "$1" "$2" <"$3" >"$4"', 'sh', process.env.CLOISTER_STORAGE_PEER, path.join(this.dir, 'objects'), ...pipes], { stdio: ['ignore', 'ignore', 'inherit'] });
    this.out = openSync(pipes[0], 'w');
    this.in = openSync(pipes[1], 'r');
  }

  /** As when the daemon is killed. */
  kill() {
    this.child.kill('SIGKILL');
    closeSync(this.out);
    closeSync(this.in);
  }

  close() {
    this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }

  read(size) {
    const bytes = Buffer.alloc(size);
    for (let at = 0; at < size;) {
      const n = readSync(this.in, bytes, at, size - at, null);
      if (n === 0) throw new Error('the storage has ended');
      at += n;
    }
    return bytes;
  }

  /** @returns {{ok: boolean, value: Buffer}} */
  call(session, method, args) {
    const head = Buffer.alloc(7);
    head.writeUInt32LE(3 + method.length + args.length, 0);
    head.writeUInt16LE(session, 4);
    head.writeUInt8(method.length, 6);
    const all = Buffer.concat([head, Buffer.from(method), args]);
    for (let at = 0; at < all.length;) at += writeSync(this.out, all, at);
    const answer = this.read(this.read(4).readUInt32LE(0));
    return { ok: answer[0] === 0, value: answer.subarray(1) };
  }
}
