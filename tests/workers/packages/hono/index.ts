// A Hono application as people write them: middleware, parameters, validation, cookies, streaming, errors.
import { Hono } from 'hono';
import { basicAuth } from 'hono/basic-auth';
import { getCookie, setCookie } from 'hono/cookie';
import { cors } from 'hono/cors';
import { etag } from 'hono/etag';
import { HTTPException } from 'hono/http-exception';
import { logger } from 'hono/logger';
import { streamText } from 'hono/streaming';
import { z } from 'zod';

type Bindings = { GREETING: string };
const app = new Hono<{ Bindings: Bindings }>();
const lines: string[] = [];

app.use(logger(line => lines.push(line)));
app.use('/api/*', cors());
app.use('/static/*', etag());
app.use('/admin/*', basicAuth({ username: 'admin', password: 'pass word' }));

app.get('/', c => c.text(`${c.env.GREETING}, ${c.req.query('name') ?? 'world'}!`));
app.get('/users/:id{[0-9]+}', c => c.json({ id: Number(c.req.param('id')), agent: c.req.header('user-agent') ?? null }));
app.post('/api/order', async c => {
  const order = z.object({ item: z.string().min(1), count: z.number().int().positive() }).safeParse(await c.req.json());
  if (!order.success) return c.json({ issues: order.error.issues.map(i => i.path.join('.')) }, 422);
  return c.json({ accepted: order.data }, 201);
});
app.post('/form', async c => {
  const form = await c.req.parseBody();
  const file = form.file as File;
  return c.json({ name: form.name, file: [file.name, file.type, await file.text()] });
});
app.get('/cookie', c => {
  const seen = getCookie(c, 'seen') ?? null;
  setCookie(c, 'seen', 'yes', { httpOnly: true, sameSite: 'Strict', path: '/' });
  return c.text(String(seen));
});
app.get('/stream', c =>
  streamText(c, async stream => {
    for (let i = 0; i < 5; i++) {
      await stream.writeln(`line ${i}`);
      await stream.sleep(5);
    }
  }),
);
app.get('/static/file', c => c.body('the file', 200, { 'content-type': 'text/plain' }));
app.get('/admin/secret', c => c.text('welcome'));
app.get('/fail', () => {
  throw new HTTPException(418, { message: 'a teapot' });
});
app.get('/lines', c => c.json(lines.length));
app.notFound(c => c.text('nothing here', 404));
app.onError((e, c) => (e instanceof HTTPException ? e.getResponse() : c.text('broken', 500)));

export default app;
