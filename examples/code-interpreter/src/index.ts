import { DurableObject, RpcTarget } from "cloudflare:workers";
import { runCode, type Run } from "./run";

export interface Env {
  LOADER: WorkerLoader;
  SESSIONS: DurableObjectNamespace<Session>;
  CPU_MS: number;
  WALL_MS: number;
}

/** All that the code can do outside of itself: remember values from one run to the next. */
class Notebook extends RpcTarget {
  #session: Session;

  constructor(session: Session) {
    super();
    this.#session = session;
  }

  get(name: string): unknown {
    return this.#session.read(String(name));
  }

  set(name: string, value: unknown): void {
    this.#session.write(String(name), value);
  }

  names(): string[] {
    return this.#session.names();
  }
}

/** One conversation: what its code remembered, and what it ran. */
export class Session extends DurableObject<Env> {
  #sql: SqlStorage;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec("CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL)");
    this.#sql.exec("CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, code TEXT NOT NULL, outcome TEXT NOT NULL)");
  }

  read(name: string): unknown {
    const [row] = this.#sql.exec<{ value: string }>("SELECT value FROM notes WHERE name = ?", name).toArray();
    return row === undefined ? undefined : JSON.parse(row.value);
  }

  write(name: string, value: unknown): void {
    const text = JSON.stringify(value) ?? "null";
    if (name.length > 100 || text.length > 100_000) throw new RangeError("a note is at most 100,000 characters");
    if (this.names().length >= 100 && this.read(name) === undefined) throw new RangeError("at most 100 notes");
    this.#sql.exec("INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, text);
  }

  names(): string[] {
    return this.#sql.exec<{ name: string }>("SELECT name FROM notes ORDER BY name").toArray().map((row) => row.name);
  }

  async run(code: string): Promise<Run> {
    const outcome = await runCode(this.env, code, new Notebook(this));
    this.#sql.exec("INSERT INTO runs (code, outcome) VALUES (?, ?)", code, JSON.stringify(outcome));
    return outcome;
  }

  history(): unknown[] {
    return this.#sql
      .exec<{ code: string; outcome: string }>("SELECT code, outcome FROM runs ORDER BY id DESC LIMIT 50")
      .toArray()
      .map(({ code, outcome }) => ({ code, ...JSON.parse(outcome) }));
  }
}

/** What a language model is told about this service, in the form that most of them take. */
const tool = {
  name: "run_javascript",
  description:
    "Runs the body of an async JavaScript function in a sandbox without network and returns its value and what it logged. " +
    "`await notes.set(name, value)` and `await notes.get(name)` remember values between runs.",
  parameters: { type: "object", properties: { code: { type: "string" } }, required: ["code"] },
};

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/tool") return Response.json(tool);
    const match = /^\/sessions\/([\w-]{1,64})$/.exec(pathname);
    if (!match) return Response.json({ error: "GET /tool, POST or GET /sessions/NAME" }, { status: 404 });
    const session = env.SESSIONS.getByName(match[1]);
    if (request.method === "GET") return Response.json(await session.history());
    const body = (await request.json().catch(() => null)) as { code?: unknown } | null;
    if (typeof body?.code !== "string") return Response.json({ error: "send {\"code\": \"...\"}" }, { status: 400 });
    return Response.json(await session.run(body.code));
  },
};
