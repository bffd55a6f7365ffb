export { startSentinelSet, type SentinelSet } from '#redis-topologies';
