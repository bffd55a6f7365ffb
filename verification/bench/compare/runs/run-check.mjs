// One check with one library, in a process of its own: node run-check.mjs <library> <check>. Prints the answer as JSON.
import { startRedisServer } from '#redis-server';
import { CHECKS } from '../checks/index.mjs';
import { LIBRARIES } from '../libraries.mjs';
import { administrator } from '../server.mjs';

const [library, check] = process.argv.slice(2);
const { open, openMemory } = await LIBRARIES[library]();
const server = await startRedisServer();
const redis = await administrator(server.url);
const answer = await CHECKS[check].run({ open: (leaseMs) => open(server.url, leaseMs), openMemory, redis });
// Exits although the library may keep connections and timers.
process.stdout.write(`${JSON.stringify({ answer })}\n`, () => void server.stop().then(() => process.exit()));
