import { Args, Field, ID, InputType, Int, Mutation, Query, Resolver } from '@nestjs/graphql';
import { Locked } from 'nestjs-distributed-lock';

@InputType()
export class Delivery {
  @Field(() => ID)
  readonly id!: string;

  @Field(() => Int)
  readonly count!: number;
}

@Resolver()
export class StockResolver {
  private readonly stock = new Map<string, number>();

  @Query(() => Int)
  left(@Args('id', { type: () => ID }) id: string): number {
    return this.stock.get(id) ?? 0;
  }

  @Mutation(() => Int)
  @Locked('goods:<id>', { waitMs: 2000 })
  async buy(@Args('id', { type: () => ID }) id: string): Promise<number> {
    const left = this.left(id) - 1;
    await new Promise((resolve) => setTimeout(resolve, 20)); // the payment
    if (left < 0) throw new Error('sold out');
    this.stock.set(id, left);
    return left;
  }

  @Mutation(() => Int)
  @Locked('goods:<delivery.id>')
  async deliver(@Args('delivery') { id, count }: Delivery): Promise<number> {
    const left = this.left(id) + count;
    this.stock.set(id, left);
    return left;
  }
}
