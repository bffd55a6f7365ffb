export { until } from './until.mjs';
