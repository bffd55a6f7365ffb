import { formatG } from './numbers.js';
import { Double, ErrorReply, MapReply, Push, ScoredReply, Status, type Reply } from './reply.js';

export type Protocol = 2 | 3;

/** The bytes of a reply, as a byte string. */
export function encode(reply: Reply, protocol: Protocol): string {
  if (typeof reply === 'string') return bulk(reply);
  if (typeof reply === 'number') return `:${reply}\r\n`;
  if (reply === null) return protocol === 3 ? '_\r\n' : '$-1\r\n';
  if (reply instanceof Status) return `+${reply.text}\r\n`;
  if (reply instanceof ErrorReply) return `-${reply.message.replace(/[\r\n]/g, ' ')}\r\n`;
  if (reply instanceof Double) {
    const text = formatG(reply.value, 17);
    return protocol === 3 ? `,${text}\r\n` : bulk(text);
  }
  if (reply instanceof MapReply) {
    const { flat } = reply;
    return protocol === 3 ? `%${flat.length / 2}\r\n${all(flat, protocol)}` : array('*', flat, protocol);
  }
  if (reply instanceof ScoredReply) {
    if (protocol === 2) return array('*', reply.flat, protocol);
    return array(
      '*',
      reply.entries.map(([member, score]) => [member, new Double(score)]),
      protocol,
    );
  }
  if (reply instanceof Push) return array(protocol === 3 ? '>' : '*', reply.items, protocol);
  return array('*', reply as readonly Reply[], protocol);
}

function array(mark: string, items: readonly Reply[], protocol: Protocol): string {
  return `${mark}${items.length}\r\n${all(items, protocol)}`;
}

function all(items: readonly Reply[], protocol: Protocol): string {
  return items.map((item) => encode(item, protocol)).join('');
}

function bulk(text: string): string {
  return `$${text.length}\r\n${text}\r\n`;
}
