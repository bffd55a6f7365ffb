import { Controller, Sse, type MessageEvent } from '@nestjs/common';
import { map, type Observable } from 'rxjs';
import { LiveService } from './live.service.js';

@Controller('live')
export class LiveController {
  constructor(private readonly live: LiveService) {}

  @Sse()
  watch(): Observable<MessageEvent> {
    return this.live.view$.pipe(map((data) => ({ data })));
  }
}
