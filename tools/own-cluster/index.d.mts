import type { OwnServer, RunningServer } from '../own-server/index.d.mts';
import type { PeerLinks } from '../peer-links/index.d.mts';

/** One server of a cluster, or the only one. It keeps its data over `kill` and `restart`. */
export interface Member extends OwnServer {
  /** From 1. */
  readonly id: number;
  /** Whether it serves clients, by its own word: it knows a leader, or it is the only one. */
  isHealthy(): Promise<boolean>;
  /** Whether it is the leader, by its own word. A leader that was cut off believes so for a while. */
  isLeader(): Promise<boolean>;
}

/** Servers on 127.0.0.1 that elect a leader, and the network between them. */
export interface OwnCluster {
  readonly members: readonly Member[];
  readonly links: PeerLinks;
  /** Resolves with the leader when the majority has one and it serves clients. @throws Error after 20 s */
  leader(): Promise<Member>;
  /** Resolves when each member serves clients. @throws Error after 30 s */
  untilHealthy(): Promise<void>;
  /** Ends all members and removes their folders. Repeatable. */
  stop(): Promise<void>;
}

/** Where a member runs. */
export interface Place<PortName extends string> {
  readonly id: number;
  readonly folder: string;
  readonly ports: Readonly<Record<PortName | 'client', number>>;
}

export interface OwnClusterOptions<PortName extends string, Routes> {
  /** How the members' folders begin. */
  readonly name: string;
  readonly size: number;
  /** Names of the ports that a member needs beside `client`. */
  readonly portNames: readonly PortName[];
  readonly urlOn: (port: number) => string;
  /** Puts proxies between the members. What it returns is handed to `run`. */
  readonly connect: (links: PeerLinks, places: readonly Place<PortName>[]) => Promise<Routes>;
  /** Starts a member. Resolves when it listens; rejects when it does not come up. */
  readonly run: (
    place: Place<PortName>,
    places: readonly Place<PortName>[],
    routes: Routes,
  ) => Promise<RunningServer>;
  readonly isHealthy: (place: Place<PortName>) => Promise<boolean>;
  readonly isLeader: (place: Place<PortName>) => Promise<boolean>;
}

/** Starts `size` servers on free ports, each with a folder of its own. Resolves when all serve clients. */
export function startOwnCluster<PortName extends string, Routes>(
  options: OwnClusterOptions<PortName, Routes>,
): Promise<OwnCluster>;
