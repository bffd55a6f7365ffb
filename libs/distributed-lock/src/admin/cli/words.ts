import type { LockInspection } from '../../lock/lock.js';
import type { LockHolder } from '../../port/lock-client.js';
import { printable } from '../../redaction/printable.js';

export function durationText(ms: number): string {
  if (ms === Infinity) return 'no end';
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** As in `shop on pod-7, process 4711 (GoodsController.purchase)`. */
export function holderText({ owner, client, site }: LockHolder): string {
  const who = client
    ? `${client.application} on ${client.host}, process ${client.process}`
    : `owner ${owner}`;
  return printable(site === undefined ? who : `${who} (${site})`);
}

/** One line that says how a key is held. */
export function stateText({ heldBy, pending, remainingMs }: LockInspection): string {
  const waiting = `${pending.length} waiting`;
  if (heldBy.length === 0) return `held by nobody, ${waiting}`;
  return `held by ${heldBy.map(holderText).join('; ')}, ${waiting}, lease ${durationText(remainingMs)}`;
}

export const TABLE_HEAD = ['KEY', 'MODE', 'HOLDER', 'HELD', 'WAITING', 'LEASE'];

export function tableRow({ key, mode, heldBy, pending, remainingMs }: LockInspection): string[] {
  const [first, ...others] = heldBy;
  const holder = first ? holderText(first) + (others.length > 0 ? `, and ${others.length} more` : '') : '';
  const held = first?.heldMs === undefined ? '' : durationText(first.heldMs);
  return [printable(key), mode ?? 'free', holder, held, String(pending.length), durationText(remainingMs)];
}
