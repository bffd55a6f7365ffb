/** The rooms of the library that stores are made of, by their folders in its `src`. */
const ROOMS = /^(connection|document|session|memory|sql|postgres|mysql|sqlite|etcd|zookeeper|redis|quorum)\//;

/** @param file a path from `src` of the library */
export function isOfStore(file: string): boolean {
  return ROOMS.test(file);
}
