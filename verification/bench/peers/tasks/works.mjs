/** The works of this process, by the name that their jobs carry. A job itself has data only, and any worker may run it. */
export const works = new Map();

let last = 0;

/** @returns the name of the work, for the data of its job */
export function nameWork(work) {
  const name = `${process.pid}:${++last}`;
  works.set(name, work);
  return name;
}

/** Runs the work of a job. If this process does not know it, the process that made the job has died. */
export function runNamed(name, turn, onUnknown) {
  const work = works.get(name);
  return work ? work(turn) : onUnknown?.();
}
