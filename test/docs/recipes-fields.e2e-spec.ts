import { describe, expect, it } from '@jest/globals';
import { Inject } from '@nestjs/common';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  Args,
  Field,
  GraphQLModule,
  ID,
  ObjectType,
  Parent,
  Query,
  ResolveField,
  Resolver,
} from '@nestjs/graphql';
import { DistributedLockModule, Locked, LockService } from 'nestjs-distributed-lock';
import { startApp, type StartedApp } from '../nest/integration/stage.js';
import { ask } from '../nest/edge/transports/graphql.js';

@ObjectType()
class Goods {
  @Field(() => ID)
  id!: string;
}

@Resolver(() => Goods)
class GoodsResolver {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  @Query(() => [Goods])
  async goods(): Promise<Goods[]> {
    return [{ id: '1' }, { id: '2' }];
  }

  @ResolveField(() => String)
  @Locked('stock:<0.id>')
  async ofParent(@Parent() _parent: Goods): Promise<string> {
    return this.key();
  }

  @ResolveField(() => String)
  @Locked('unit:<unit>')
  async ofArgument(@Args('unit') _unit: string): Promise<string> {
    return this.key();
  }

  @ResolveField(() => String)
  @Locked('user:<user.id>')
  async ofUser(): Promise<string> {
    return this.key();
  }

  private key(): string {
    return String(this.locks.current()?.key);
  }
}

async function start(fieldResolverEnhancers: 'interceptors'[]): Promise<StartedApp> {
  const graphql = { driver: ApolloDriver, autoSchemaFile: true, fieldResolverEnhancers };
  const imports = [DistributedLockModule.forRoot(), GraphQLModule.forRoot<ApolloDriverConfig>(graphql)];
  return startApp('express', { imports, providers: [GoodsResolver] }, (app) =>
    app.use((request: { user?: unknown }, _response: unknown, next: () => void) => {
      request.user = { id: 'u1' };
      next();
    }),
  );
}

async function answerOf({ app }: StartedApp, fields: string): Promise<unknown> {
  const answer: unknown = await (
    await ask(`${await app.getUrl()}/graphql`, `{ goods { ${fields} } }`)
  ).json();
  await app.close();
  return answer;
}

describe.each([
  ['as Nest has them by default', []],
  ['with interceptors', ['interceptors']],
] satisfies [string, 'interceptors'[]][])('field resolvers %s', (_name, enhancers) => {
  it('are locked by what their arguments and their parent say', async () => {
    const goods = ['stock:1', 'stock:2'].map((ofParent) => ({ ofParent, ofArgument: 'unit:kg' }));
    const answer = await answerOf(await start(enhancers), 'ofParent ofArgument(unit: "kg")');
    expect(answer).toEqual({ data: { goods } });
  });
});

describe('a field resolver whose key is a part of the request', () => {
  it('is locked where Nest runs interceptors for fields, and refused elsewhere', async () => {
    const goods = [{ ofUser: 'user:u1' }, { ofUser: 'user:u1' }];
    expect(await answerOf(await start(['interceptors']), 'ofUser')).toEqual({ data: { goods } });
    const { errors } = (await answerOf(await start([]), 'ofUser')) as { errors: { message: string }[] };
    expect(errors[0]?.message).toContain('<user.id> is a part of a request');
  });
});
