/** Milliseconds of the machine's monotonic clock: comparable between the processes of one machine. */
export const systemMs = () => Number(process.hrtime.bigint()) / 1e6;
