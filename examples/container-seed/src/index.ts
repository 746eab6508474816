import { DurableObject } from "cloudflare:workers";

interface Env {
  MACHINES: DurableObjectNamespace<Machine>;
}

interface Outcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** A Linux machine of its own for each name, without a way to the Internet. */
export class Machine extends DurableObject<Env> {
  async run(command: string[]): Promise<Outcome> {
    const { container } = this.ctx;
    if (!container) throw new Error("wrangler.jsonc names no container for Machine");
    if (!container.running) {
      container.start({
        image: "cloudflare/debian-trixie",
        entrypoint: ["sleep", "infinity"],
        enableInternet: false,
      });
      // Nobody asked anything for five minutes: the machine may go.
      await container.setInactivityTimeout(5 * 60 * 1000);
    }
    const process = await container.exec(command);
    const output = await process.output();
    const text = new TextDecoder();
    return { exitCode: output.exitCode, stdout: text.decode(output.stdout), stderr: text.decode(output.stderr) };
  }

  async stop(): Promise<void> {
    await this.ctx.container?.destroy("asked to stop");
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    const machine = env.MACHINES.getByName(pathname.slice(1) || "default");
    switch (request.method) {
      case "GET":
        return Response.json(await machine.run(["uname", "-a"]));
      case "POST": {
        const { command } = (await request.json()) as { command: unknown };
        if (!Array.isArray(command) || command.length === 0 || !command.every((word) => typeof word === "string"))
          return Response.json({ error: "send {\"command\": [\"program\", \"argument\"]}" }, { status: 400 });
        return Response.json(await machine.run(command));
      }
      case "DELETE":
        await machine.stop();
        return new Response(null, { status: 204 });
      default:
        return new Response("GET, POST or DELETE\n", { status: 405 });
    }
  },
};
