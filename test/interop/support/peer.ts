import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { JavaService } from '../../../verification/interop/index.mjs';

const NEST_PROCESS = fileURLToPath(new URL('nest-process.mjs', import.meta.url));
const ANSWER_MS = 120_000;
/** A process lives for some seconds, in which the JVM's best compiler takes more time than it saves. */
const SHORT_LIVED = '-XX:TieredStopAtLevel=1';

/** Which side a process is of: Redisson's, or ours. */
export type Side = 'java' | 'nest';

/** Where Redis is: `url` of a server, or `nodes` of a cluster. Further options go to the process as they are. */
export interface PeerOptions {
  readonly url?: string;
  readonly nodes?: readonly string[];
  readonly watchdogTimeoutMs?: number;
  /** For how long a waiter of Java's fair lock that was killed keeps its place; default 5 minutes. */
  readonly fairWaitMs?: number;
  readonly sharedTokens?: boolean;
  readonly sharded?: 'AUTO' | 'ON' | 'OFF';
}

/** An answer; which fields it has depends on the order (verification/interop/README.md). */
export interface Answer {
  readonly held?: boolean;
  readonly owner?: string;
  readonly token?: number;
  readonly waitedMs?: number;
  /** When the order was carried out: ms since the epoch, with fractions. */
  readonly atMs: number;
  readonly outcome?: 'released' | 'lost';
  readonly freed?: boolean;
  readonly remainingMs?: number;
  readonly permits?: number;
  readonly permit?: string;
  readonly threads?: readonly CrowdThread[];
  readonly [more: string]: unknown;
}

export interface CrowdThread {
  readonly who: string;
  readonly turns: number;
}

type Waiting = { resolve(answer: Answer): void; reject(error: Error): void };

/** A process of either side that takes orders, so that a test can be written once for both. */
export class Peer {
  /** Warnings and errors that it has written, apart from those that a lock was lost: that is `told`. */
  complaints = '';
  /** What happened without an order, such as a lock that was lost (ours alone tells). */
  readonly told: { readonly event: string; readonly name: string }[] = [];
  private readonly waiting = new Map<number | 'ready', Waiting>();
  private readonly child: ChildProcess;
  private readonly ended: Promise<unknown>;
  private orders = 0;

  private constructor(
    readonly side: Side,
    options: PeerOptions,
  ) {
    const { command, args } =
      side === 'java' ? javaService() : { command: process.execPath, args: [NEST_PROCESS] };
    // It ends when its stdin does, and that closes however this process ends.
    this.child = spawn(command, [...args, JSON.stringify(options)], { stdio: 'pipe' });
    this.ended = once(this.child, 'close').then(() =>
      this.fail(`The ${side} process has ended.${this.complaints}`),
    );
    this.child.stdin?.on('error', () => undefined);
    if (this.child.stderr) createInterface(this.child.stderr).on('line', (line) => this.onComplaint(line));
    if (this.child.stdout) createInterface(this.child.stdout).on('line', (line) => this.onLine(line));
  }

  static async start(side: Side, options: PeerOptions): Promise<Peer> {
    const peer = new Peer(side, options);
    await peer.answerTo('ready');
    return peer;
  }

  /** Sends an order and resolves with its answer. @throws Error by the answer, or when the process ends before */
  order(what: string, name = '', more: object = {}): Promise<Answer> {
    const id = ++this.orders;
    const answer = this.answerTo(id);
    this.child.stdin?.write(`${JSON.stringify({ id, do: what, name, ...more })}\n`);
    return answer;
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** As a crash: nothing is given back. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.ended;
  }

  /** Ends in order. */
  async close(): Promise<void> {
    await this.order('close');
    await this.ended;
  }

  private async answerTo(id: number | 'ready'): Promise<Answer> {
    const answer = new Promise<Answer>((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    const timer = setTimeout(
      () => this.waiting.get(id)?.reject(new Error(`${this.side}: no answer within ${ANSWER_MS} ms`)),
      ANSWER_MS,
    );
    return answer.finally(() => clearTimeout(timer));
  }

  private onLine(line: string): void {
    // A warning of Nest, as of a renewal that took long on a busy machine.
    if (!line.startsWith('{')) return this.onComplaint(line);
    const { id, ready, event, name, error, ...answer } = JSON.parse(line);
    if (event) return void this.told.push({ event, name });
    const waiting = this.waiting.get(ready ? 'ready' : id);
    this.waiting.delete(ready ? 'ready' : id);
    if (error) waiting?.reject(new Error(`${this.side}: ${error}`));
    else waiting?.resolve(answer as Answer);
  }

  private onComplaint(line: string): void {
    if (!line.includes('Lost "') && !line.includes('was released by force'))
      this.complaints += `${this.side}: ${line}\n`;
  }

  private fail(why: string): void {
    for (const waiting of this.waiting.values()) waiting.reject(new Error(why));
    this.waiting.clear();
  }
}

function javaService(): JavaService {
  const service = JSON.parse(process.env['INTEROP_JAVA'] as string) as JavaService;
  return { ...service, args: [SHORT_LIVED, ...service.args] };
}
