import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { refusal, type AdminAnswer } from './admin-answer.js';

/** A request of Express or of Fastify. */
export interface AdminRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body?: unknown;
}

/** A reply of Express, which is the response of Node, or of Fastify, which contains that response. */
export type AdminReply =
  | ServerResponse
  | { readonly raw: ServerResponse<IncomingMessage>; hijack(): unknown };

/** Reads the query from the address, because each application may have another parser. */
export function queryOf({ url }: AdminRequest): URLSearchParams {
  return new URL(url, 'http://localhost').searchParams;
}

/** The response of Node. Fastify then leaves it alone. */
export function rawOf(reply: AdminReply): ServerResponse {
  if (!('raw' in reply)) return reply;
  reply.hijack();
  return reply.raw;
}

/**
 * Refuses a release that this module does not offer, and one that another site may have sent with the cookies of an operator.
 * A browser sends a preflight request before JSON to another site, and says in `Sec-Fetch-Site` where a request comes from.
 */
export function refuseRelease({ headers }: AdminRequest, canRelease: boolean): AdminAnswer | undefined {
  if (!canRelease)
    return refusal(
      403,
      'This page only reads. LockAdminModule.forRoot({ canRelease: true }) lets it release.',
    );
  const from = headers['sec-fetch-site'] ?? 'same-origin';
  if (from !== 'same-origin' && from !== 'none') return refusal(403, 'Another site has sent this request.');
  if (!/^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '')) {
    return refusal(415, 'Send the key as JSON, with Content-Type: application/json.');
  }
  return undefined;
}
