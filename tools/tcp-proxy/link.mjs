import { Flow } from './flow.mjs';

export class Link {
  commands = [];
  isOpen = true;
  forgetsAfterMs = Infinity;
  #carriedAt = performance.now();
  #client;
  #server;
  #names = new Set();

  /**
   * @param {import('node:net').Socket} client @param {import('node:net').Socket} server
   * @param {{ read(chunk: Buffer): string[][] }} parser @param {boolean} keepsCommands
   */
  constructor(client, server, parser, keepsCommands) {
    this.#client = client;
    this.#server = server;
    this.requests = new Flow(server);
    this.replies = new Flow(client);
    client.on('data', (chunk) => {
      const commands = parser.read(chunk);
      for (const [name] of commands) this.#names.add(name.toLowerCase());
      if (keepsCommands) this.commands.push(...commands);
      this.#forgetIfIdle();
      this.requests.carry(chunk);
    });
    server.on('data', (chunk) => {
      this.#forgetIfIdle();
      this.replies.carry(chunk);
    });
    client.on('close', () => this.#onClientClosed());
    server.on('close', () => client.destroy());
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', () => undefined);
  }

  has(name) {
    return this.#names.has(name);
  }

  get carriesCommands() {
    return this.has('time') || this.has('command') || (this.has('statement') && !this.has('listen'));
  }

  vanish() {
    this.requests.drop();
    this.replies.drop();
  }

  reset() {
    this.#client.resetAndDestroy();
  }

  deliverLate() {
    this.requests.pass();
    this.#server.end();
  }

  destroy() {
    this.#client.destroy();
    this.#server.destroy();
  }

  #forgetIfIdle() {
    const now = performance.now();
    if (now - this.#carriedAt > this.forgetsAfterMs) this.vanish();
    this.#carriedAt = now;
  }

  #onClientClosed() {
    this.isOpen = false;
    if (this.requests.heldBytes === 0) this.#server.destroy();
  }
}
