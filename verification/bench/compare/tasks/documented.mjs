/**
 * What does not run here, by column: what its own documentation says of each task, by the names of `TASKS`, each with its source on the
 * page. A task that is not named was not found there.
 */
export const DOCUMENTED = {
  Temporal: {
    alone: '[yes][temporal-lock]',
    order: '[no][temporal-lock]',
    limit: '[yes][temporal-lock]',
    once: '[part][temporal-id]',
    soon: '[minutes, not milliseconds][temporal-lock]',
    long: '[no][temporal-lock]',
    killed: '[when its lease ends][temporal-lock]',
    redone: '[goes on][temporal-durable]',
    token: '[part][temporal-lock]',
  },
  Restate: {
    alone: '[yes][restate-services]',
    order: '[a queue][restate-services]',
    limit: '[yes][restate-invocations]',
    once: '[yes][restate-invocations]',
    redone: '[goes on][restate-durable]',
  },
  'Durable Objects': {
    alone: '[part][objects-rules]',
    order: '[part][objects-stub]',
    redone: '[alarms][objects-alarms]',
    told: '[part][objects-unique]',
    token: '[own storage][objects-unique]',
  },
};

/** What must run beside the application, by column. */
export const NEEDS = {
  'this library': '[one of five servers, or none](stores.md)',
  BullMQ: 'Redis',
  'pg-boss': 'PostgreSQL',
  '`pg_advisory_lock`': 'PostgreSQL',
  '`SET NX`': 'Redis',
  Temporal: '[Temporal][temporal-lock]',
  Restate: '[Restate][restate-invocations]',
  'Durable Objects': '[Cloudflare][objects-rules]',
};
