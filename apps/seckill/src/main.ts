import { createApp } from './create-app.js';
import { InstanceService } from './live/instance.service.js';
import { readSettings } from './settings.js';

/** One instance of the shop. `launch.ts` starts it as a child process, which ends when its parent does. */
try {
  const app = await createApp(readSettings(process.env));
  process.once('disconnect', () => process.exit());
  process.send?.({ id: app.get(InstanceService).id, url: await app.getUrl() });
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}
