/** What an agent asks for: files to write, then a command to run. */
export interface Job {
  files: Record<string, string>;
  command: string[];
  timeoutMs: number;
}

export interface Report {
  passed: boolean;
  exitCode: number;
  timedOut: boolean;
  ms: number;
  /** The end of it, when it is long: that is where test programs say what failed. */
  output: string;
  truncated: boolean;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Throws a TypeError that says what is wrong. */
export function readJob(body: unknown, longest: number): Job {
  if (!isObject(body)) throw new TypeError("send an object");
  const { files = {}, command, timeoutMs = longest } = body;
  if (!isObject(files)) throw new TypeError("files: {path: text} is wanted");
  for (const [path, text] of Object.entries(files)) {
    if (typeof text !== "string") throw new TypeError(`files: the text of ${path} is wanted`);
    if (path.startsWith("/") || path.split("/").some((part) => part === "" || part === "." || part === ".."))
      throw new TypeError(`files: ${path} is no path below the workspace`);
  }
  if (!Array.isArray(command) || command.length === 0 || !command.every((word) => typeof word === "string"))
    throw new TypeError("command: a list of texts is wanted");
  if (typeof timeoutMs !== "number" || !(timeoutMs >= 100)) throw new TypeError("timeoutMs: at least 100");
  return { files: files as Record<string, string>, command, timeoutMs: Math.min(timeoutMs, longest) };
}

export function badRequest(error: unknown): Response {
  return Response.json({ error: error instanceof Error ? error.message : String(error) }, { status: 400 });
}
