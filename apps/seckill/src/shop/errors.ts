import { ConflictException, NotFoundException } from '@nestjs/common';

export class GoodsNotFoundError extends NotFoundException {
  constructor(id: number) {
    super({ statusCode: 404, code: 'NOT_FOUND', message: `There is no item ${id}.` });
  }
}

export class SoldOutError extends ConflictException {
  constructor(name: string) {
    super({ statusCode: 409, code: 'SOLD_OUT', message: `${name} is sold out.` });
  }
}

export class AlreadyBoughtError extends ConflictException {
  constructor(name: string) {
    super({
      statusCode: 409,
      code: 'ALREADY_BOUGHT',
      message: `You have bought ${name} already: one for each buyer.`,
    });
  }
}

/** The database has seen a larger token: this request lost its lock, and a later holder has been there. */
export class StaleTokenError extends ConflictException {
  constructor(id: number, fence: number) {
    super({
      statusCode: 409,
      code: 'STALE_TOKEN',
      message: `Another request has taken item ${id} over (our token was ${fence}). Nothing was changed; try again.`,
    });
  }
}
