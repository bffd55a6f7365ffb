import { createHash } from 'node:crypto';
import { SCRIPTS } from '../../libs/distributed-lock/src/redis/scripts/script-command.js';

const NAMES = new Map([
  [SCRIPTS.acquire.sha, 'acquire'],
  [SCRIPTS.release.sha, 'release'],
  [SCRIPTS.renew.sha, 'renew'],
  [SCRIPTS.renewPlain.sha, 'renew-plain'],
  [SCRIPTS.force.sha, 'force'],
  [SCRIPTS.inspect.sha, 'inspect'],
]);

/** What a command is called here: the script that it runs, marked when it carries the source; otherwise its own name. */
export function wireName([name = '', script = '']: readonly string[]): string {
  switch (name.toLowerCase()) {
    case 'evalsha':
      return NAMES.get(script) ?? 'unknown script';
    case 'eval':
      return `${NAMES.get(createHash('sha1').update(script).digest('hex')) ?? 'unknown script'} in full`;
    default:
      return name.toLowerCase();
  }
}
