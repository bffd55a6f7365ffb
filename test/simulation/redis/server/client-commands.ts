import type { Command } from '../commands/command.js';
import { ErrorReply, MapReply, OK, type Reply } from '../resp/reply.js';
import type { Protocol } from '../resp/encode.js';
import type { Scripting } from './scripting.js';
import type { Subscriptions } from './subscriptions.js';

/** Implemented by `ServerClient`: what the commands that scripts may not call need. */
export interface ClientSide {
  readonly id: number;
  protocol: Protocol;
  readonly scripting: Scripting;
  readonly subscriptions: Subscriptions;
  readonly isReplica: boolean;
  info(): string;
  role(): Reply;
  /** Answers later. */
  wait(replicas: number, ms: number): void;
  /** Ends the connection once its replies are written. */
  quit(): void;
}

/** The reply of a command that writes its replies itself. */
export const WRITTEN = Symbol('written');

interface ClientCommand extends Pick<Command, 'arity' | 'writes' | 'needsMemory'> {
  run(args: readonly string[], client: ClientSide): Reply | typeof WRITTEN;
}

const COMMANDS: Readonly<Record<string, ClientCommand>> = {
  hello: { arity: -1, run: hello },
  auth: {
    arity: -2,
    run: () => {
      throw new ErrorReply(
        'ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?',
      );
    },
  },
  select: {
    arity: 2,
    run: ([index]) => {
      if (index === '0') return OK;
      throw new ErrorReply('ERR DB index is out of range');
    },
  },
  'client|id': { arity: 1, run: (_, { id }) => id },
  'client|setname': { arity: 2, run: () => OK },
  info: { arity: -1, run: (_, it) => it.info() },
  role: { arity: 1, run: (_, it) => it.role() },
  command: { arity: -1, run: () => [] },
  quit: {
    arity: -1,
    run: (_, it) => {
      it.quit();
      return WRITTEN;
    },
  },
  subscribe: {
    arity: -2,
    run: (names, it) => {
      it.subscriptions.subscribe(names);
      return WRITTEN;
    },
  },
  unsubscribe: {
    arity: -1,
    run: (names, it) => {
      it.subscriptions.unsubscribe(names);
      return WRITTEN;
    },
  },
  eval: { arity: -3, run: (words, { scripting }) => scripting.eval(words) },
  evalsha: { arity: -3, run: (words, { scripting }) => scripting.evalSha(words) },
  'script|load': { arity: 2, run: ([source = ''], { scripting }) => scripting.load(source) },
  'script|exists': { arity: -2, run: (shas, { scripting }) => scripting.exist(shas) },
  'script|flush': {
    arity: -1,
    run: (_, { scripting }) => {
      scripting.flush();
      return OK;
    },
  },
  wait: {
    arity: 3,
    run: ([replicas, ms], it) => {
      if (it.isReplica) {
        throw new ErrorReply(
          'ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.',
        );
      }
      it.wait(Number(replicas), Number(ms));
      return WRITTEN;
    },
  },
};

export function clientCommand(name: string): ClientCommand | undefined {
  return COMMANDS[name];
}

function hello([version, ...words]: readonly string[], client: ClientSide): Reply {
  if (version !== undefined) {
    if (version !== '2' && version !== '3') throw new ErrorReply('NOPROTO unsupported protocol version');
    if (words.some((word) => word.toUpperCase() !== 'SETNAME')) words.splice(0);
    client.protocol = version === '3' ? 3 : 2;
  }
  const { protocol, id } = client;
  const role = client.isReplica ? 'replica' : 'master';
  const about = ['server', 'redis', 'version', '7.0.15', 'proto', protocol, 'id', id];
  return new MapReply([...about, 'mode', 'standalone', 'role', role, 'modules', []]);
}
