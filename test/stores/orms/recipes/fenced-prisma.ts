import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import {
  heldUntilCommit,
  StaleTokenError,
  type Fence,
  type SqlQuery,
  type SqlRow,
} from 'nestjs-distributed-lock/guard';
import { PrismaClient, type Prisma } from './generated/prisma/client.js';

// The client itself, which takes other connections, has $connect: the compiler refuses it.
interface Transaction extends Prisma.TransactionClient {
  readonly $connect?: never;
}

export const prismaQuery =
  (tx: Transaction): SqlQuery =>
  (sql, parameters) =>
    tx.$queryRawUnsafe<SqlRow[]>(sql, ...parameters);

@Injectable()
export class PrismaSale {
  constructor(
    private readonly locks: LockService,
    private readonly prisma: PrismaClient,
  ) {}

  sellHeld(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.prisma.$transaction(async (tx) => {
        const left = await takeOne(tx, id);
        await heldUntilCommit(prismaQuery(tx), lock);
        return left;
      }),
    );
  }

  sellGuarded(id: number): Promise<number> {
    return this.locks.withLock(lockKey`goods:${id}`, (lock) =>
      this.prisma.$transaction(async (tx) => {
        await raiseFence(tx, id, lock);
        return takeOne(tx, id);
      }),
    );
  }
}

export async function raiseFence(tx: Transaction, id: number, { key, fencingToken }: Fence): Promise<void> {
  const fence = BigInt(fencingToken);
  const { count } = await tx.goods.updateMany({ where: { id, fence: { lte: fence } }, data: { fence } });
  if (count === 1) return;
  const goods = await tx.goods.findUniqueOrThrow({ where: { id } });
  throw new StaleTokenError(key, fencingToken, Number(goods.fence));
}

async function takeOne(tx: Transaction, id: number): Promise<number> {
  const goods = await tx.goods.findUniqueOrThrow({ where: { id } });
  if (goods.stock === 0) throw new Error('sold out');
  const { stock } = await tx.goods.update({ where: { id }, data: { stock: goods.stock - 1 } });
  return stock;
}
