import {
  Controller,
  Get,
  Inject,
  Post,
  Req,
  Res,
  UseGuards,
  VERSION_NEUTRAL,
  type CanActivate,
  type Type,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { answerOf, type AdminAnswer } from './admin-answer.js';
import { EventStreams } from './event-streams.js';
import { LockAdmin } from './lock-admin.js';
import { ADMIN_PAGE, ADMIN_PAGE_HEADERS } from './page.js';
import { queryOf, refuseRelease, type AdminReply, type AdminRequest } from './request.js';

const HEADERS = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/**
 * The routes. They read the request and write the reply themselves, so that pipes and interceptors of the application, which
 * may wrap every answer, change nothing here.
 */
class AdminRoutes {
  constructor(
    @Inject(LockAdmin) private readonly admin: LockAdmin,
    @Inject(EventStreams) private readonly streams: EventStreams,
    @Inject(HttpAdapterHost) private readonly host: HttpAdapterHost,
  ) {}

  @Get()
  page(@Res() reply: AdminReply): void {
    this.send(reply, 200, 'text/html; charset=utf-8', ADMIN_PAGE, ADMIN_PAGE_HEADERS);
  }

  @Get('api/about')
  about(@Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => this.admin.about());
  }

  @Get('api/locks')
  list(@Req() request: AdminRequest, @Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => this.admin.list(queryOf(request)));
  }

  /** The key is a parameter and no part of the path, because it may have slashes and dots. */
  @Get('api/lock')
  inspect(@Req() request: AdminRequest, @Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => this.admin.inspect(queryOf(request).get('key')));
  }

  @Get('api/held')
  held(@Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => this.admin.held());
  }

  @Get('api/events')
  events(@Req() request: AdminRequest, @Res() reply: AdminReply): void {
    this.streams.add(request, reply, this.admin.locks);
  }

  @Post('api/release')
  release(@Req() request: AdminRequest, @Res() reply: AdminReply): Promise<void> {
    return this.answer(
      reply,
      () => refuseRelease(request, this.admin.canRelease) ?? this.admin.release(request),
    );
  }

  private async answer(reply: AdminReply, work: () => AdminAnswer | Promise<AdminAnswer>): Promise<void> {
    const { status, body } = await answerOf(work);
    const headers = status === 503 ? { 'Retry-After': '1' } : {};
    this.send(reply, status, 'application/json; charset=utf-8', JSON.stringify(body), headers);
  }

  private send(reply: AdminReply, status: number, type: string, text: string, headers: object = {}): void {
    const { httpAdapter } = this.host;
    for (const [name, value] of Object.entries({ ...HEADERS, ...headers, 'Content-Type': type })) {
      httpAdapter.setHeader(reply, name, value as string);
    }
    httpAdapter.reply(reply, text, status);
  }
}

/** A class for each import of the module, because Nest keeps path and guards at the class. */
export function adminController(path: string, guard: Type<CanActivate> | CanActivate): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  @UseGuards(guard)
  class LockAdminController extends AdminRoutes {}
  return LockAdminController;
}
