import stream from './stream.js';

export const { finished, pipeline } = /** @type {any} */ (stream).promises;
export default { finished, pipeline };
