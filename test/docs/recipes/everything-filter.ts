import { Catch, HttpException, type ArgumentsHost } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { toHttpException } from 'nestjs-distributed-lock';

@Catch()
export class EverythingFilter extends BaseExceptionFilter {
  override catch(error: unknown, host: ArgumentsHost): void {
    const translated = toHttpException(error);
    if (!(translated instanceof HttpException)) console.error('to be looked at', translated);
    // oxlint-disable-next-line promise/valid-params -- a filter, not a promise
    super.catch(translated, host);
  }
}
