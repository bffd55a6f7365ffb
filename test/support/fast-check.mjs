// What specs get for `fast-check`. Two runs of one commit try the same inputs, so that no run fails by chance. `npm run nightly --
// simulation` tries others, with FAST_CHECK_SEED=random. If a property fails, fast-check prints the seed to set here.
import fc from '../../node_modules/fast-check/lib/fast-check.js';

const { FAST_CHECK_SEED: seed = '1' } = process.env;
if (seed !== 'random') fc.configureGlobal({ seed: Number(seed) });

export default fc;
export * from '../../node_modules/fast-check/lib/fast-check.js';
