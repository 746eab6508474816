import { badRequest, readJob, type Job } from "./job";
import type { Workspace } from "./workspace";

export { Workspace } from "./workspace";

export interface Env {
  WORKSPACES: DurableObjectNamespace<Workspace>;
  TIMEOUT_MS: number;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const match = /^\/workspaces\/([\w-]{1,64})(\/files\/(.+))?$/.exec(new URL(request.url).pathname);
    if (!match) return Response.json({ error: "POST, GET or DELETE /workspaces/NAME, GET /workspaces/NAME/files/PATH" }, { status: 404 });
    const workspace = env.WORKSPACES.getByName(match[1]);

    if (match[3] !== undefined) {
      const file = await workspace.file(decodeURIComponent(match[3]));
      return file === null ? new Response("no such file\n", { status: 404 }) : new Response(file);
    }
    if (request.method === "GET") return Response.json(await workspace.history());
    if (request.method === "DELETE") {
      await workspace.clear();
      return new Response(null, { status: 204 });
    }
    let job: Job;
    try {
      job = readJob(await request.json(), env.TIMEOUT_MS);
    } catch (error) {
      return badRequest(error);
    }
    return Response.json(await workspace.run(job));
  },
};
