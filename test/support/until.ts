export { until } from '#until';
