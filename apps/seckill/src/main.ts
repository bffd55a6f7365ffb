import { readConfig } from './config.js';
import { createApp } from './create-app.js';
import { preflight } from './preflight/preflight.js';

const config = readConfig(process.env);
await preflight(config);
const app = await createApp(config);
const url = await app.getUrl();
const locks = config.redisUrl ? 'the Redis of REDIS_URL' : 'in this process (set REDIS_URL to share them)';
const data = config.databaseUrl ? 'the Postgres of DATABASE_URL' : 'in memory (set DATABASE_URL to keep it)';

console.log(`The flash sale listens on ${url}
  locks   ${config.locked ? locks : 'OFF: this will oversell'}
  data    ${data}
  API     ${url}/docs

Open it in a browser and send in the crowd, or try:
  curl ${url}/goods
  curl -X POST ${url}/goods/1/purchase -H 'x-user-id: ann'
  curl -X POST ${url}/checkout -H 'x-user-id: ben' -H 'content-type: application/json' -d '{"items": [{"id": 1}, {"id": 2}]}'
  curl -X POST ${url}/goods/1/restock -H 'content-type: application/json' -d '{"amount": 10}'
  curl '${url}/orders?goodsId=1'`);
