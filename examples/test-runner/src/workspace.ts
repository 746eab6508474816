import { DurableObject } from "cloudflare:workers";
import type { Env } from "./index";
import type { Job, Report } from "./job";

const HOME = "/workspace";
const KEPT_OUTPUT = 64 * 1024;
const IDLE_MS = 10 * 60 * 1000;
const GRACE_MS = 5000;
const SIGKILL = 9;

/** A directory in a container of its own, where an agent's changes are tried. Without network; thrown away when idle. */
export class Workspace extends DurableObject<Env> {
  /** One job after the other: the files of one must not change under the tests of another. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS reports (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, command TEXT NOT NULL, report TEXT NOT NULL)",
    );
  }

  run(job: Job): Promise<Report> {
    const turn = this.#queue.then(() => this.#run(job));
    this.#queue = turn.catch(() => {});
    return turn;
  }

  async #run(job: Job): Promise<Report> {
    const container = await this.#container();
    for (const [path, text] of Object.entries(job.files)) await this.#write(container, path, text);

    const started = Date.now();
    // timeout(1) ends the command and what it started in its process group. What has left the group goes with the container.
    const limit = ["timeout", "--signal=KILL", `${job.timeoutMs / 1000}s`];
    const process = await container.exec([...limit, ...job.command], { cwd: HOME, stderr: "combined", env: { CI: "1", HOME } });
    const timer = setTimeout(() => void container.destroy("a job did not end"), job.timeoutMs + GRACE_MS);
    const [{ output, truncated }, exitCode] = await Promise.all([readEnd(process.stdout!), process.exitCode]);
    clearTimeout(timer);
    const timedOut = exitCode === 128 + SIGKILL && Date.now() - started >= job.timeoutMs;

    const report: Report = { passed: exitCode === 0, exitCode, timedOut, ms: Date.now() - started, output, truncated };
    this.ctx.storage.sql.exec("INSERT INTO reports (at, command, report) VALUES (?, ?, ?)", started, JSON.stringify(job.command), JSON.stringify(report));
    return report;
  }

  async file(path: string): Promise<ArrayBuffer | null> {
    const container = await this.#container();
    const process = await container.exec(["cat", "--", path], { cwd: HOME, stderr: "ignore" });
    const { exitCode, stdout } = await process.output();
    return exitCode === 0 ? stdout : null;
  }

  history(): unknown[] {
    return this.ctx.storage.sql
      .exec<{ at: number; command: string; report: string }>("SELECT at, command, report FROM reports ORDER BY id DESC LIMIT 50")
      .toArray()
      .map(({ at, command, report }) => ({ at: new Date(at).toISOString(), command: JSON.parse(command), ...JSON.parse(report) }));
  }

  async clear(): Promise<void> {
    if (this.ctx.container?.running) await this.ctx.container.destroy("cleared");
    this.ctx.storage.sql.exec("DELETE FROM reports");
  }

  async #container(): Promise<Container> {
    const { container } = this.ctx;
    if (!container) throw new Error("wrangler.jsonc names no container for Workspace");
    if (!container.running) {
      container.start({ image: container.images.tools, entrypoint: ["sleep", "infinity"], enableInternet: false });
      await container.setInactivityTimeout(IDLE_MS);
      const made = await container.exec(["mkdir", "-p", HOME]);
      if ((await made.exitCode) !== 0) throw new Error(`cannot make ${HOME}`);
    }
    return container;
  }

  async #write(container: Container, path: string, text: string): Promise<void> {
    const script = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"';
    const process = await container.exec(["sh", "-c", script, "write", path], { cwd: HOME, stdin: "pipe", stdout: "ignore", stderr: "pipe" });
    const writer = process.stdin!.getWriter();
    await writer.write(new TextEncoder().encode(text));
    await writer.close();
    const { exitCode, stderr } = await process.output();
    if (exitCode !== 0) throw new Error(`${path} cannot be written: ${new TextDecoder().decode(stderr).trim()}`);
  }
}

/** Reads to the end and keeps the last part. */
async function readEnd(stream: ReadableStream<Uint8Array>): Promise<{ output: string; truncated: boolean }> {
  let kept = new Uint8Array(0);
  let truncated = false;
  for await (const chunk of stream) {
    const joined = new Uint8Array(kept.length + chunk.length);
    joined.set(kept);
    joined.set(chunk, kept.length);
    truncated ||= joined.length > KEPT_OUTPUT;
    kept = joined.slice(-KEPT_OUTPUT);
  }
  return { output: new TextDecoder().decode(kept), truncated };
}
