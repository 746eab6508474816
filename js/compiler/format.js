/** The version of the compiled form (README.md): part of every cache key, checked by the linker. */
export const FORMAT = 3;

/** Characters of source text that are accepted; time and memory are bounded by the process. */
export const MAX_SOURCE = 10 * 1024 * 1024;
