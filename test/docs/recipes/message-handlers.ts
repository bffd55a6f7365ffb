import { Controller, Injectable } from '@nestjs/common';
import {
  Ctx,
  EventPattern,
  GrpcMethod,
  KafkaRetriableException,
  MessagePattern,
  Payload,
  type RmqContext,
} from '@nestjs/microservices';
import { isLockError, Locked } from 'nestjs-distributed-lock';

interface Order {
  readonly id: string;
}

@Injectable()
export class Orders {
  @Locked('order:<order.id>', { waitMs: 2000 })
  async pay(order: Order): Promise<string> {
    return `paid ${order.id}`;
  }
}

@Controller()
export class OrderMessages {
  constructor(private readonly orders: Orders) {}

  // TCP, Redis, NATS: a caller gets { status: 'error', code: 'LOCK_WAIT_TIMEOUT', message }.
  @MessagePattern('order.pay')
  @Locked('order:<data.id>', { waitMs: 2000 })
  async pay(@Payload() order: Order): Promise<string> {
    return this.orders.pay(order); // holds the lock already
  }

  // gRPC: a caller gets the status ABORTED, with the code in the metadata lock-code.
  @GrpcMethod('Orders', 'Pay')
  @Locked('order:<data.id>', { waitMs: 2000 })
  async call(order: Order): Promise<{ readonly text: string }> {
    return { text: await this.orders.pay(order) };
  }

  // Kafka: Nest commits the offset after any error but this one, and the message would be lost.
  @EventPattern('order.placed')
  async fromKafka(@Payload() order: Order): Promise<void> {
    try {
      await this.orders.pay(order);
    } catch (error) {
      throw isLockError(error) ? new KafkaRetriableException(error.message) : error;
    }
  }

  // RabbitMQ with noAck: false: the handler tells what becomes of the message, so it must run also without the lock.
  @EventPattern('order.queued')
  async fromRabbit(@Payload() order: Order, @Ctx() context: unknown): Promise<void> {
    const rabbit = context as RmqContext;
    const channel = rabbit.getChannelRef() as Channel;
    try {
      await this.orders.pay(order);
      channel.ack(rabbit.getMessage());
    } catch (error) {
      channel.nack(rabbit.getMessage(), false, isLockError(error)); // true: deliver it again
    }
  }
}

interface Channel {
  ack(message: unknown): void;
  nack(message: unknown, allUpTo: boolean, requeue: boolean): void;
}
