import type { SessionIntroduction } from '../session/session-backend.js';
import { CODE, ZookeeperRefusal } from './client/codes.js';
import { ANY_VERSION, create, getData, multi, remove, type Acl } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import type { Documents } from './documents.js';
import type { LockPaths } from './lock-path.js';
import { found } from './rows.js';
import { repeated } from './writes.js';

/** What clients tell of themselves: a znode for each client, which ends with the session that wrote it last. */
export class ZookeeperIntroductions {
  constructor(private readonly options: IntroductionsOptions) {}

  async write({ clientId, text }: Omit<SessionIntroduction, 'session'>): Promise<void> {
    const { session, paths, acl, documents } = this.options;
    const path = paths.introductionOf(clientId);
    // One that is there may be that of an earlier session, with which it would end.
    const removal = remove(path, ANY_VERSION);
    const creation = text === undefined ? [] : [create(path, { acl, data: text, isEphemeral: true })];
    let isThere = true;
    const written = await repeated(
      async () => (await session.send(multi(isThere ? [removal, ...creation] : creation))).content,
      async ({ code }) => {
        if (code !== CODE.noNode || creation.length === 0) return false;
        if (!isThere) await documents.makeParents();
        isThere = false;
        return true;
      },
      2,
    );
    const isGone = !written.isDone && creation.length === 0 && written.code === CODE.noNode;
    if (!written.isDone && !isGone) throw new ZookeeperRefusal(written.code);
  }

  async read(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const { session, paths, documents } = this.options;
    const [, ...nodes] = await Promise.all([
      documents.catchUp(),
      ...clientIds.map((clientId) => found(session, getData(paths.introductionOf(clientId)))),
    ]);
    return nodes.map((node) => node?.data);
  }
}

interface IntroductionsOptions {
  readonly session: ZookeeperSession;
  readonly paths: LockPaths;
  readonly acl: Acl;
  readonly documents: Documents;
}
