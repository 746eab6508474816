// The Container class of @cloudflare/containers, driven by its own methods.
import { Container, getContainer } from '@cloudflare/containers';

export class Box extends Container {
  enableInternet = false;
  sleepAfter = '10m';
  entrypoint = ['sleep', '1000'];
  events = [];

  onStart() {
    this.events.push('start');
  }

  onStop(why) {
    this.events.push(['stop', why.exitCode ?? null, why.reason ?? null]);
  }

  async command(cmd) {
    const process = await this.ctx.container.exec(cmd);
    const output = await process.output();
    return { code: output.exitCode, text: new TextDecoder().decode(output.stdout) };
  }

  async ask(port) {
    return (await this.ctx.container.getTcpPort(port).fetch('http://container/')).status;
  }

  async told() {
    return { events: this.events, running: this.ctx.container.running, state: (await this.getState()).status };
  }
}

export default {
  async fetch(request, env) {
    const box = getContainer(env.BOX, 'one');
    switch (new URL(request.url).pathname) {
      case '/start':
        await box.start({ envVars: { COLOUR: 'blue' } });
        return Response.json(await box.told());
      case '/port':
        return Response.json(await box.ask(8080));
      case '/run':
        return Response.json(await box.command(['sh', '-c', 'echo $COLOUR; exit 3']));
      case '/destroy':
        await box.destroy();
        return Response.json(await box.told());
      default:
        return Response.json(await box.told());
    }
  },
};
