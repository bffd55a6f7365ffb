import { Controller, Sse, type MessageEvent } from '@nestjs/common';
import { map, type Observable } from 'rxjs';
import { ViewService } from './view.service.js';

@Controller('live')
export class ViewController {
  constructor(private readonly views: ViewService) {}

  @Sse()
  watch(): Observable<MessageEvent> {
    return this.views.view$.pipe(map((data) => ({ data })));
  }
}
