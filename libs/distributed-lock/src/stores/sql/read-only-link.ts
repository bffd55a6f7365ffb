import { LockConfigurationError } from '../../port/lock.errors.js';
import type { SqlLink } from './sql-database.js';

/** The connection of a store with access 'read': it writes nothing, whatever its user may. */
export function readOnlyLink(link: SqlLink): SqlLink {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new LockConfigurationError(
        `This SQL store has access 'read': it lists and inspects locks. To acquire or release them leave the option out.`,
      ),
    );
  return {
    opened: link.opened,
    read: (rows) => link.read(rows),
    scan: (scan) => link.scan(scan),
    ping: (channel) => link.ping(channel),
    destroy: () => link.destroy(),
    take: refuse,
    swap: refuse,
    deleteFree: refuse,
  };
}
