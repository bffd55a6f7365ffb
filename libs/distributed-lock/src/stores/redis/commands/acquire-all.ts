import { isExclusive } from '../../../port/claim.js';
import type { AcquireRequest, Grant, InTheWay, Repeated } from '../../../port/lock-store.js';
import type { OwnerRequests } from '../../common/owner-requests.js';
import { shareSlot } from '../redis.keys.js';
import { WireKeys, type Arguments } from '../redis.client.js';
import type { ScriptContext } from '../scripts/script-command.js';
import { acquireAllScript, type ReplyOf } from '../scripts/scripts.js';
import { AcquiringCommand, type AcquireContext } from './acquire.js';

type Reply = ReplyOf<typeof acquireAllScript>;
type Grants = readonly (Grant & Repeated)[];

/** Whether one script can acquire all these locks. */
export function fitsOneScript(requests: readonly AcquireRequest[], context: ScriptContext): boolean {
  if (!requests.every(({ claim }) => isExclusive(claim))) return false;
  return !context.isCluster || shareSlot(requests.map(({ key }) => context.lockName(key)));
}

export class AcquireAllCommand extends AcquiringCommand<Reply, Grants | InTheWay> {
  private readonly owners: readonly OwnerRequests[];

  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    private readonly requests: readonly AcquireRequest[],
    store: AcquireContext,
  ) {
    const keys = new WireKeys(requests.flatMap(({ key }) => store.scripts.namesOf(key, 'lock')));
    super(acquireAllScript, store, requests[0] as AcquireRequest, keys);
    this.owners = requests.map(({ owner }) => store.owners.beginRequest(owner));
  }

  protected forEach(act: (request: AcquireRequest, owner: OwnerRequests) => void): void {
    this.requests.forEach((request, i) => act(request, this.owners[i] as OwnerRequests));
  }

  protected args(): Arguments {
    const notAfter = this.onWrite();
    const one = ({ owner, leaseMs, tokens, claim }: AcquireRequest) => [owner, leaseMs, tokens, claim.kind];
    const longest = this.store.guard?.longestLeaseMs ?? 0;
    return [notAfter, this.context.minToken, longest, ...this.requests.flatMap(one)];
  }

  protected resultOf([kind, , ...numbers]: Reply): Grants | InTheWay {
    const { requests, mayComeLate, store } = this;
    if (kind === 2) {
      if (mayComeLate) requests.forEach(store.undo);
      return { key: (requests[(numbers[0] as number) - 1] as AcquireRequest).key };
    }
    return requests.map((request, i) => {
      const grant = this.granted(request, numbers[2 * i] as number, numbers[2 * i + 1] as number);
      return mayComeLate ? { ...grant, mayComeLate } : grant;
    });
  }
}
