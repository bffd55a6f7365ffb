// Loaded before anything else of a process whose library is to be a mutant.
import { register } from 'node:module';

register('./load-hooks.mjs', import.meta.url, { data: JSON.parse(process.env.CHAOS_MUTANT) });
