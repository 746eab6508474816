/** Packages that come without types. */
declare module 'whatwg-url/lib/url-state-machine.js';
