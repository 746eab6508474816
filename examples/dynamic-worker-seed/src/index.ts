import type { WorkerEntrypoint } from "cloudflare:workers";

interface Env {
  LOADER: WorkerLoader;
}

type CodeEntrypoint = WorkerEntrypoint & {
  evaluate(): Promise<unknown>;
};

/** What a visitor sends is the body of a method; the module around it is ours. */
const moduleAround = (body: string) => `
  import { WorkerEntrypoint } from "cloudflare:workers";

  export class Code extends WorkerEntrypoint {
    async evaluate() {
      ${body}
    }
  }
`;

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    if (request.method !== "POST") return new Response("POST the body of a JavaScript function\n", { status: 405 });
    const untrustedModule = moduleAround(await request.text());

    const sandbox = env.LOADER.load({
      compatibilityDate: "$today",
      mainModule: "code.js",
      modules: { "code.js": untrustedModule },
      globalOutbound: null, // fetch() and connect() throw
      limits: { cpuMs: 200 },
    });
    try {
      const entrypoint = sandbox.getEntrypoint<CodeEntrypoint>("Code");
      const result = await entrypoint.evaluate();
      return Response.json({ result: result ?? null });
    } catch (error) {
      return Response.json({ error: String(error) }, { status: 422 });
    }
  },
};
