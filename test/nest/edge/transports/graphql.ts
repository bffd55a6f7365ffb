import type { DynamicModule, Type } from '@nestjs/common';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Args, GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import { MercuriusDriver, type MercuriusDriverConfig } from '@nestjs/mercurius';
import { startApp, type ADAPTERS } from '../../integration/stage.js';
import { HttpOnlyFilter, Witness, registration, type Running, type Transport } from './transport.js';

interface Server {
  readonly adapter: (typeof ADAPTERS)[number];
  readonly module: () => DynamicModule;
}

/** Each with subscriptions over WebSockets, by the protocol of `graphql-ws`. */
export const SERVERS = {
  'Apollo on Express': {
    adapter: 'express',
    module: () =>
      GraphQLModule.forRoot<ApolloDriverConfig>({
        driver: ApolloDriver,
        autoSchemaFile: true,
        subscriptions: { 'graphql-ws': true },
      }),
  },
  'Mercurius on Fastify': {
    adapter: 'fastify',
    module: () =>
      GraphQLModule.forRoot<MercuriusDriverConfig>({
        driver: MercuriusDriver,
        autoSchemaFile: true,
        subscription: true,
      }),
  },
} satisfies Readonly<Record<string, Server>>;

export async function startGraphql(
  handlers: Type<unknown>,
  server: keyof typeof SERVERS,
): Promise<Running & { readonly url: string }> {
  const { adapter, module } = SERVERS[server];
  const { app, stage, locks } = await startApp(
    adapter,
    { imports: [registration(), module()], providers: [handlers] },
    (it) => {
      it.useGlobalFilters(new HttpOnlyFilter());
      it.useGlobalInterceptors(new Witness());
    },
  );
  const url = `${await app.getUrl()}/graphql`;
  return {
    url,
    stage,
    locks,
    call: async (name, id = '1') => {
      const answer = await ask(url, `{ ${name}(id: ${JSON.stringify(id)}) }`);
      const { data, errors } = (await answer.json()) as {
        data?: Record<string, unknown>;
        errors?: { message: string; extensions?: { code: string } }[];
      };
      const [error] = errors ?? [];
      if (!error) return { value: data?.[name] };
      return { error: { message: error.message, ...error.extensions } };
    },
    close: () => app.close(),
  };
}

export const ask = (url: string, query: string, signal?: AbortSignal): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
    signal: signal ?? null,
  });

const graphql = (server: keyof typeof SERVERS): Transport => ({
  exception: Error,
  forClass: Resolver(),
  on: (name) => Query(() => String, { name, nullable: true }),
  id: (...pipes) => Args('id', { type: () => String }, ...(pipes as Type[])),
  start: (handlers) => startGraphql(handlers, server),
});

export const overApollo = graphql('Apollo on Express');
export const overMercurius = graphql('Mercurius on Fastify');
