export { spawnGuarded } from './spawn-guarded.mjs';
