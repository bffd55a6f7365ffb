import {
  Catch,
  Inject,
  Injectable,
  ParseIntPipe,
  SetMetadata,
  UseFilters,
  UseGuards,
  UseInterceptors,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { LockService, Locked, type LockWaitTimeoutError } from 'nestjs-distributed-lock';
import { map, throwError, type Observable } from 'rxjs';
import { Stage } from '../../integration/stage.js';
import { beside, type Place } from '../support.js';
import type { Transport } from './transport.js';

/** A socket of `ws`, or of socket.io. */
interface Socket {
  readonly readyState?: number;
  send(message: string): void;
  emit(event: string, data: unknown): void;
}

class SoldOut extends Error {}

@Catch(SoldOut)
class SoldOutFilter implements ExceptionFilter {
  catch(_error: SoldOut, host: ArgumentsHost): unknown {
    const type = host.getType<string>();
    if (type === 'ws') {
      const client = host.switchToWs().getClient<Socket>();
      const [event, data] = ['exception', { message: 'sold out' }];
      if (client.readyState === undefined) return client.emit(event, data);
      return client.send(JSON.stringify({ event, data }));
    }
    if (type === 'rpc') return throwError(() => ({ message: 'sold out' }));
    throw new Error('sold out');
  }
}

@Injectable()
class RoleGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    return this.reflector.get('role', context.getHandler()) === 'buyer';
  }
}

@Injectable()
class Wrap implements NestInterceptor {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const key = this.locks.current()?.key;
    return next.handle().pipe(map((value: unknown) => `[${String(value)} in ${key}]`));
  }
}

/** What is tried on every transport, with the other decorators on one side of `@Locked`. */
export function handlersOf({ forClass, on, id }: Transport, place: Place): Type<unknown> {
  const role = (name: string): MethodDecorator => SetMetadata('role', name);

  @forClass
  class Handlers {
    constructor(
      @Inject(Stage) private readonly stage: Stage,
      @Inject(LockService) private readonly locks: LockService,
    ) {}

    @beside(
      place,
      Locked('g:<id>', { waitMs: 0 }),
      on('buy'),
      UseGuards(RoleGuard),
      role('buyer'),
      UseInterceptors(Wrap),
    )
    async buy(@id(ParseIntPipe) item: number): Promise<string> {
      return `${typeof item} ${item} under ${this.locks.current()?.key}`;
    }

    @beside(place, Locked('g:<id>'), on('denied'), UseGuards(RoleGuard), role('guest'))
    async denied(@id() _item: string): Promise<string> {
      this.stage.note('ran denied');
      return 'never';
    }

    @beside(place, Locked('g:<id>'), on('soldOut'), UseFilters(SoldOutFilter))
    async soldOut(@id() _item: string): Promise<string> {
      throw new SoldOut();
    }

    @beside(
      place,
      Locked('g:<id>', {
        waitMs: 0,
        onBusy(this: Handlers, { code }: LockWaitTimeoutError, item: string) {
          this.stage.note(`${item} is busy`);
          return code;
        },
      }),
      on('fallback'),
    )
    async fallback(@id() item: string): Promise<string> {
      return item;
    }

    @beside(place, Locked('named:<id|trim>'), on('named'))
    async named(@id() item: string): Promise<string> {
      return `${item} under ${this.locks.current()?.key}`;
    }

    @beside(place, Locked('down:<id>', { waitMs: 0 }), on('down'))
    async down(@id() item: string): Promise<string> {
      return item;
    }

    @beside(place, Locked('lost:<id>'), on('lost'))
    async lost(@id() item: string): Promise<string> {
      await this.stage.reach('lost');
      return item;
    }

    @on('inside')
    async inside(@id() item: string): Promise<string> {
      return this.locks.withLock(`g:${item}`, { waitMs: 0 }, () => 'free');
    }

    @on('mistake')
    async mistake(@id() item: string): Promise<string> {
      return this.locks.withLock([], () => item);
    }
  }
  return Handlers;
}
