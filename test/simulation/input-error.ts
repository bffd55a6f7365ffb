/** A command line or a plan that the simulation cannot run. Its message says what is wrong and what may stand there. */
export class InputError extends Error {}
