import { Controller, Param, Sse, type MessageEvent } from '@nestjs/common';
import { Locked } from 'nestjs-distributed-lock';
import { interval, map, take, type Observable } from 'rxjs';

@Controller('exports')
export class ExportController {
  @Sse(':id/progress')
  @Locked('export:<id>')
  progress(@Param('id') id: string): Observable<MessageEvent> {
    return interval(1000).pipe(
      take(10),
      map((percent) => ({ data: { id, percent } })),
    );
  }
}
