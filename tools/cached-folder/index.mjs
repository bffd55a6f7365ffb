export { cachedFolder } from './cached-folder.mjs';
