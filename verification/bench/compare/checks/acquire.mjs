export const KEY = 'goods:42';

/** Resolves when the key is held. `release` settles as the library's own function does. */
export function acquire(library, options) {
  return new Promise((resolve, reject) => {
    const work = () =>
      new Promise((end) => {
        resolve({ release: () => (end(), done.catch(() => {})) });
      });
    const done = library.run(KEY, work, options);
    done.catch(reject);
  });
}
