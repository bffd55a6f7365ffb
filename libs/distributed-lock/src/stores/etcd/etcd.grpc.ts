import type * as GrpcJs from '@grpc/grpc-js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import { ETCD_DESCRIPTOR } from './etcd.descriptor.js';
import type { CallName } from './etcd.messages.js';

/** gRPC, and the calls of etcd that are made by it. */
export interface EtcdGrpc {
  readonly grpc: Grpc;
  readonly methods: Readonly<Record<CallName | 'Watch', Method>>;
}

export type Grpc = typeof GrpcJs;
export type Method = GrpcJs.MethodDefinition<object, object>;

let loaded: Promise<EtcdGrpc> | undefined;

/** @throws LockConfigurationError without the packages */
export function loadGrpc(): Promise<EtcdGrpc> {
  return (loaded ??= load());
}

async function load(): Promise<EtcdGrpc> {
  const [grpc, loader] = await importBoth();
  const definition = loader.fromJSON(ETCD_DESCRIPTOR as Descriptor, {
    longs: Number,
    enums: String,
    defaults: true,
  });
  const methods = ['KV', 'Watch', 'Lease', 'Auth', 'Maintenance'].map(
    (service) => definition[`etcdserverpb.${service}`] as unknown as Record<string, Method>,
  );
  return { grpc, methods: Object.assign({}, ...methods) as EtcdGrpc['methods'] };
}

type Descriptor = Parameters<Loader['fromJSON']>[0];
type Loader = typeof import('@grpc/proto-loader');

/** Both packages are CommonJS modules. An import gives them as `default`, and the `require` of the CommonJS build gives them directly. */
async function importBoth(): Promise<readonly [Grpc, Loader]> {
  try {
    const [grpc, loader] = (await Promise.all([import('@grpc/grpc-js'), import('@grpc/proto-loader')])) as [
      Grpc & { readonly default?: Grpc },
      Loader & { readonly default?: Loader },
    ];
    return [grpc.default ?? grpc, loader.default ?? loader];
  } catch (cause) {
    loaded = undefined;
    throw new LockConfigurationError(
      'etcdStore needs the packages @grpc/grpc-js and @grpc/proto-loader, which it does not find: npm install @grpc/grpc-js @grpc/proto-loader. In a bundle leave both outside of it, and install them beside the bundle.',
      { cause },
    );
  }
}
