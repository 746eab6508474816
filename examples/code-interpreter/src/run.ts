import type { RpcTarget, WorkerEntrypoint } from "cloudflare:workers";
import type { Env } from "./index";
import wrapper from "./wrapper.txt";

export type Run = { logs: string[]; ms: number } & ({ result: unknown } | { error: string });

type Interpreter = WorkerEntrypoint & {
  run(notes: RpcTarget): Promise<{ logs: string[]; result?: unknown; error?: string }>;
};

const late = Symbol("late");

/** Runs code in a Worker that is made for it and thrown away after it. Whatever the code does, there is an answer. */
export async function runCode(env: Env, code: string, notes: RpcTarget): Promise<Run> {
  const started = Date.now();
  const done = (outcome: { result: unknown } | { error: string }, logs: string[] = []): Run => ({ ...outcome, logs, ms: Date.now() - started });
  const sandbox = env.LOADER.load({
    compatibilityDate: "2026-11-01",
    mainModule: "wrapper.js",
    // The code is a module of its own: what it does with braces is its own business.
    modules: { "wrapper.js": wrapper, "code.js": `export default async (notes, console) => {\n${code}\n}` },
    globalOutbound: null,
    limits: { cpuMs: env.CPU_MS },
  });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<typeof late>((resolve) => {
    timer = setTimeout(() => resolve(late), env.WALL_MS);
  });
  try {
    const answer = await Promise.race([sandbox.getEntrypoint<Interpreter>().run(notes), timeout]);
    if (answer === late) return done({ error: `not finished within ${env.WALL_MS} ms` });
    const { logs, result, error } = answer;
    return error === undefined ? done({ result: result ?? null }, logs) : done({ error }, logs);
  } catch (error) {
    return done({ error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) });
  } finally {
    clearTimeout(timer);
  }
}
