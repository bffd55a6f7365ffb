/**
 * Runs `tasks` side by side, `width` of them at a time, in their order: for cases that mostly wait.
 *
 * @returns a promise for each task
 */
export function sideBySide<T>(width: number, tasks: readonly (() => Promise<T>)[]): Promise<T>[] {
  const results: Promise<T>[] = [];
  tasks.forEach((task, i) => {
    const before = results[i - width];
    const result = before ? before.then(task, task) : task();
    // A rejection belongs to the test that awaits it.
    result.catch(() => undefined);
    results.push(result);
  });
  return results;
}
