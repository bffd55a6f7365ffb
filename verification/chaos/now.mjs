/** Milliseconds of the machine's monotonic clock: one clock for all its processes, whoever sets the time of day. */
export function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}
