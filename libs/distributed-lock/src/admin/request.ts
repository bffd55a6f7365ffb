import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

/** A request of Express or of Fastify. */
export interface AdminRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** As the framework reads it, behind a proxy that it trusts. */
  readonly host?: string;
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

/** The answer to a request that is refused. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Refuses a request that another site may have sent with the cookies of an operator. A browser sends a preflight request before JSON
 * to another site, and says in `Sec-Fetch-Site` where a request comes from.
 *
 * @throws Refusal
 */
export function checkOrigin(request: AdminRequest): void {
  if (isFromAnotherSite(request)) throw new Refusal(403, 'Another site has sent this request.');
  if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '')) {
    throw new Refusal(415, 'Send the key as JSON, with Content-Type: application/json.');
  }
}

/**
 * Browsers send no `Sec-Fetch-Site` to a page over plain HTTP. Then `Origin` must name the host that was asked: the one of the
 * request, or the one that Express and Fastify read behind a proxy which they were told to trust.
 */
function isFromAnotherSite({ headers, host }: AdminRequest): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  const { origin } = headers;
  if (origin === undefined) return false;
  const hosts = [headers.host, headers[':authority'], host].map((it) => it?.toString().toLowerCase());
  return !URL.canParse(origin) || !hosts.includes(new URL(origin).host);
}
