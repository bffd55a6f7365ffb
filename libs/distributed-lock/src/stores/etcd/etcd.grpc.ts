import type * as GrpcJs from '@grpc/grpc-js';
import { clientPackage } from '../common/client-package.js';
import { ETCD_DESCRIPTOR } from './etcd.descriptor.js';
import type { CallName } from './etcd.messages.js';

/** gRPC, and the calls of etcd that are made by it. */
export interface EtcdGrpc {
  readonly grpc: Grpc;
  readonly methods: Readonly<Record<CallName | 'Watch', Method>>;
}

export type Grpc = typeof GrpcJs;
export type Method = GrpcJs.MethodDefinition<object, object>;

const NOT_INSTALLED =
  'etcdStore needs the packages @grpc/grpc-js and @grpc/proto-loader, which it does not find: npm install @grpc/grpc-js @grpc/proto-loader. In a bundle leave both outside of it, and install them beside the bundle.';

let loaded: Promise<EtcdGrpc> | undefined;

/** @throws LockConfigurationError without the packages */
export function loadGrpc(): Promise<EtcdGrpc> {
  return (loaded ??= load().catch((error: unknown) => {
    loaded = undefined;
    throw error;
  }));
}

async function load(): Promise<EtcdGrpc> {
  const [grpc, loader] = await Promise.all([
    clientPackage<Grpc>(() => import('@grpc/grpc-js'), NOT_INSTALLED),
    clientPackage<Loader>(() => import('@grpc/proto-loader'), NOT_INSTALLED),
  ]);
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
