import { HttpException } from '@nestjs/common';

/** The reason for which a call leaves the queue when its client has gone. No client sees it. */
export class ClientLeftError extends HttpException {
  constructor() {
    super('Client Closed Request', 499);
  }
}
