import type { Config } from '../config.js';
import { createApp } from '../create-app.js';
import { preflight } from '../preflight/preflight.js';
import type { Places } from '../stores/describe-places.js';

/** Starts the app in this process, which then ends on SIGINT and SIGTERM, and prints how to use it. */
export async function listen(config: Config, { goods, locks }: Places): Promise<void> {
  await preflight(config);
  const app = await createApp(config);
  const url = await app.getUrl();

  console.log(`The flash sale listens on ${url}
  locks   ${config.locked ? `in ${locks}` : 'OFF: this will oversell'}
  data    in ${goods}

Open it in a browser and send in the crowd, or try:
  curl ${url}/goods
  curl -X POST ${url}/goods/1/purchase -H 'x-user-id: ann'
  curl -X POST ${url}/checkout -H 'x-user-id: ben' -H 'content-type: application/json' -d '{"items": [{"id": 1}, {"id": 2}]}'
  curl -X POST ${url}/goods/1/restock -H 'content-type: application/json' -d '{"amount": 10}'
  curl '${url}/orders?goodsId=1'`);
}
