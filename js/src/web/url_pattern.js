/** URLPattern, by urlpattern-polyfill (which parses addresses with our URL, see inject.js). */
import { URLPattern } from 'urlpattern-polyfill/urlpattern';
import { finishInterface } from './webidl.js';

finishInterface(URLPattern, 'URLPattern');
export { URLPattern };
