export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    return new Response(`Hello from ${pathname}\n`);
  },
};
