import { createHash } from 'node:crypto';
import {
  acquireScript,
  releaseScript,
  forceScript,
  inspectScript,
  renewAllScript,
  renewScript,
} from '../../libs/distributed-lock/src/redis/scripts/script-command.js';

const SCRIPTS = new Map([
  [acquireScript.sha, 'acquire'],
  [releaseScript.sha, 'release'],
  [renewScript.sha, 'renew'],
  [renewAllScript.sha, 'renew-all'],
  [forceScript.sha, 'force'],
  [inspectScript.sha, 'inspect'],
]);

/** What a command is called here: the script that it runs, marked when it carries the source; otherwise its own name. */
export function wireName([name = '', script = '']: readonly string[]): string {
  switch (name.toLowerCase()) {
    case 'evalsha':
      return SCRIPTS.get(script) ?? 'unknown script';
    case 'eval':
      return `${SCRIPTS.get(createHash('sha1').update(script).digest('hex')) ?? 'unknown script'} in full`;
    default:
      return name.toLowerCase();
  }
}
