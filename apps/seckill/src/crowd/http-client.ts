import { Agent, request } from 'node:http';

export interface Answer {
  readonly status: number;
  /** The parsed body. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** Connections are kept and used again, as a load balancer does. */
const agent = new Agent({ keepAlive: true });

/** Rejects when the connection breaks before the answer is complete. */
export function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  const payload = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      agent,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(payload),
        ...headers,
      },
    });
    sent.on('error', reject).on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('error', reject).on('end', () => {
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Answer['body'] });
      });
    });
    sent.end(payload);
  });
}
