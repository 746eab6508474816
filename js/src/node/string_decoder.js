import base from 'string_decoder';

export const { StringDecoder } = /** @type {any} */ (base);
export default { StringDecoder };
