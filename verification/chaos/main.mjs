// npm run chaos -- [soak]: faults one by one, or a soak in which nothing may grow.
const isSoak = process.argv[2] === 'soak';
if (isSoak) process.argv.splice(2, 1);
await (isSoak ? import('./soak.mjs') : import('./run.mjs'));
