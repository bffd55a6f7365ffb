/** Under which owner each lock was acquired: calls that share one are passed the lock within their process. */
export class Owners {
  #owners = new Map();

  /** @param {import('nestjs-distributed-lock').LockService} service */
  constructor(service) {
    service.events$.subscribe((event) => {
      if (event.type === 'acquired') this.#owners.set(`${event.key} ${event.fencingToken}`, event.owner);
    });
  }

  /** The owner that acquired `key` with this token; asked once. @param {string} key @param {number} token */
  ownerOf(key, token) {
    const owner = this.#owners.get(`${key} ${token}`);
    this.#owners.delete(`${key} ${token}`);
    return owner;
  }
}
