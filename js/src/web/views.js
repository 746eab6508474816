/** How console shows the classes whose state is private. */
import { nullObject } from '../primordials.js';
import { isBlob, isFile } from './blob.js';
import { entriesOf, isFormData } from './form_data.js';
import { isHeaders, sortedPairs } from './headers.js';
import { registerView } from './inspect.js';
import { headersOfRequest, isRequest, requestToWire } from './request.js';
import { headersOfResponse, isResponse, responseToWire } from './response.js';
import { hrefOfURL, isURL, isURLSearchParams, listOf } from './url.js';

/** @param {any[][]} pairs */
function record(pairs) {
  const made = nullObject();
  for (let i = 0; i < pairs.length; i++) {
    const key = pairs[i][0];
    made[key] = key in made ? `${made[key]}, ${pairs[i][1]}` : pairs[i][1];
  }
  return made;
}
registerView('Headers', isHeaders, (value) => record(sortedPairs(value)));
registerView('URL', isURL, hrefOfURL);
registerView('URLSearchParams', isURLSearchParams, (value) => record(listOf(value)));
registerView('FormData', isFormData, (value) => record(entriesOf(value)));
registerView('File', isFile, (value) => ({ __proto__: null, name: value.name, size: value.size, type: value.type }));
registerView('Blob', isBlob, (value) => ({ __proto__: null, size: value.size, type: value.type }));
registerView('Request', isRequest, (value) => {
  const { method, url } = requestToWire(value);
  return { __proto__: null, method, url, headers: headersOfRequest(value) };
});
registerView('Response', isResponse, (value) => {
  const { status, statusText, url } = responseToWire(value);
  return { __proto__: null, status, statusText, url, headers: headersOfResponse(value) };
});
