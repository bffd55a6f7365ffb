import { parseArgs } from 'node:util';

export interface DemoOptions {
  readonly stock: number;
  readonly buyers: number;
  /** How many processes serve the sale. */
  readonly instances: number;
  readonly locked: boolean;
  /** Kill one of the processes in mid-sale. */
  readonly kill: boolean;
}

const USAGE = `npm run demo -- [options]

  --no-lock        the same sale without the lock: see how it oversells
  --instances <n>  over n processes, with a real Redis and one database (default 1: all in one process)
  --kill           kill -9 one of the processes in mid-sale (with --instances)
  --stock <n>      items to sell (default 100)
  --buyers <n>     who want one each (default 1000)

With --instances, REDIS_URL and DATABASE_URL name servers to use instead of starting them.`;

/** @throws Error with the usage */
export function readOptions(args: string[]): DemoOptions {
  try {
    const { values } = parseArgs({
      args,
      options: {
        'no-lock': { type: 'boolean', default: false },
        instances: { type: 'string', default: '1' },
        kill: { type: 'boolean', default: false },
        stock: { type: 'string', default: '100' },
        buyers: { type: 'string', default: '1000' },
      },
    });
    const instances = positive('instances', values.instances);
    if (values.kill && instances < 2) throw new Error('--kill needs --instances 2 or more.');
    return {
      stock: positive('stock', values.stock),
      buyers: positive('buyers', values.buyers),
      instances,
      locked: !values['no-lock'],
      kill: values.kill,
    };
  } catch (error) {
    throw new Error(`${(error as Error).message}\n\n${USAGE}`, { cause: error });
  }
}

function positive(name: string, text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`--${name} must be a whole number from 1 to 999999.`);
  return Number(text);
}
