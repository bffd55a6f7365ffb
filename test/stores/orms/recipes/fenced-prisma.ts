import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import { FencedTable, heldUntilCommit, type SqlQuery, type SqlRow } from 'nestjs-distributed-lock/guard';
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
        await new FencedTable(prismaQuery(tx), { table: 'goods' }).read({ id }, lock);
        return takeOne(tx, id);
      }),
    );
  }
}

async function takeOne(tx: Transaction, id: number): Promise<number> {
  const goods = await tx.goods.findUniqueOrThrow({ where: { id } });
  if (goods.stock === 0) throw new Error('sold out');
  const { stock } = await tx.goods.update({ where: { id }, data: { stock: goods.stock - 1 } });
  return stock;
}
