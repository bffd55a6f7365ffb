import { ConflictException, NotFoundException } from '@nestjs/common';

export class GoodsNotFound extends NotFoundException {
  constructor(id: number) {
    super({ statusCode: 404, code: 'NOT_FOUND', message: `There is no item ${id}.` });
  }
}

export class SoldOut extends ConflictException {
  constructor(name: string) {
    super({ statusCode: 409, code: 'SOLD_OUT', message: `${name} is sold out.` });
  }
}

export class AlreadyBought extends ConflictException {
  constructor(name: string) {
    super({
      statusCode: 409,
      code: 'ALREADY_BOUGHT',
      message: `You have bought ${name} already: one for each buyer.`,
    });
  }
}

/** The database has seen a larger token: the lock of this request was lost, and a later holder has been there. */
export class StaleFence extends ConflictException {
  constructor(id: number, fence: number) {
    super({
      statusCode: 409,
      code: 'STALE_FENCE',
      message: `Item ${id} was taken over by another request (ours had token ${fence}). Nothing was changed; try again.`,
    });
  }
}
