import { Controller, HttpCode, Post, Body } from '@nestjs/common';
import { Locked } from 'nestjs-distributed-lock';

interface PaymentEvent {
  readonly id: string;
  readonly payment: { readonly id: string };
}

export abstract class Payments {
  abstract hasSeen(eventId: string): Promise<boolean>;
  abstract apply(event: PaymentEvent): Promise<void>;
}

@Controller('webhooks')
export class WebhookController {
  constructor(private readonly payments: Payments) {}

  @Post('payments')
  @HttpCode(204)
  @Locked('payment:<body.payment.id>', { waitMs: 5000, http: { busy: 503 } })
  async receive(@Body() event: PaymentEvent): Promise<void> {
    if (!(await this.payments.hasSeen(event.id))) await this.payments.apply(event);
  }
}
