export { fetchRuntime } from './fetch-runtime.mjs';
