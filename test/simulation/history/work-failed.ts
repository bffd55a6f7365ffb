/** What the work of a call throws on purpose. */
export class WorkFailed extends Error {}
