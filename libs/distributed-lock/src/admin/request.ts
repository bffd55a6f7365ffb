import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

/** A request of Express or of Fastify. */
export interface AdminRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The host name as the framework determines it, if need be from the header of a trusted proxy. */
  readonly host?: string;
  readonly body?: unknown;
}

/** The reply of Express is Node's own response. The reply of Fastify contains it. */
export type AdminReply =
  | ServerResponse
  | { readonly raw: ServerResponse<IncomingMessage>; hijack(): unknown };

/** Parses the query from the URL. The framework's own result depends on the parser that the application has chosen. */
export function queryOf({ url }: AdminRequest): URLSearchParams {
  return new URL(url, 'http://localhost').searchParams;
}

/** Returns Node's own response, and tells Fastify not to send anything itself. */
export function rawOf(reply: AdminReply): ServerResponse {
  if (!('raw' in reply)) return reply;
  reply.hijack();
  return reply.raw;
}

/** The response to a request that is refused: status and message. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Refuses a request that another site has sent from an operator's browser, with the operator's cookies. Browsers send a preflight
 * request before they send JSON to another site, and state the origin of a request in `Sec-Fetch-Site`.
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
 * Over plain HTTP browsers send no `Sec-Fetch-Site`. Then the host in `Origin` must be that of the request: the one in its
 * header, or behind a trusted proxy the one that Express or Fastify reports.
 */
function isFromAnotherSite({ headers, host }: AdminRequest): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  const { origin } = headers;
  if (origin === undefined) return false;
  const hosts = [headers.host, headers[':authority'], host].map((it) => it?.toString().toLowerCase());
  return !URL.canParse(origin) || !hosts.includes(new URL(origin).host);
}
