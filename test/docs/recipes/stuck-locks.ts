import { Controller, Get, Param, Post, Query } from '@nestjs/common';
import { LockService, type HoldSnapshot, type LockPage } from 'nestjs-distributed-lock';

/** For operators only: put your own guard on it. */
@Controller('ops/locks')
export class LocksController {
  constructor(private readonly locks: LockService) {}

  @Get()
  list(@Query('prefix') prefix = '', @Query('cursor') cursor?: string): Promise<LockPage> {
    return this.locks.list({ prefix, cursor });
  }

  @Get('here')
  here(): readonly HoldSnapshot[] {
    return this.locks.held();
  }

  @Post(':key/free')
  async free(@Param('key') key: string): Promise<{ answer: string }> {
    return { answer: await this.locks.forceRelease(key) };
  }
}
