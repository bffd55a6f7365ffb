export { convict } from './convict.mjs';
export { mutate } from './mutate.mjs';
export { MUTANTS } from './mutants.mjs';
