import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { InputError } from '../input-error.js';

const PEERS = `${process.cwd()}/verification/bench/peers`;

export function arePeersInstalled(): boolean {
  return existsSync(`${PEERS}/node_modules/ioredis`);
}

/** @throws InputError if the other libraries are not installed */
export async function loadPeer(name: string): Promise<unknown> {
  if (!arePeersInstalled())
    throw new InputError(
      'The other libraries are not installed: node tools/install-in.mjs verification/bench/peers',
    );
  const { load } = (await import(pathToFileURL(`${PEERS}/load.mjs`).href)) as {
    readonly load: (name: string) => Promise<unknown>;
  };
  return load(name);
}
