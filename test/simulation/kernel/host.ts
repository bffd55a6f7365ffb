import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';

/** Services tell the store on which host and in which process they run. Here these are the same on every machine and in every run. */
export function hideHost(): void {
  Object.defineProperty(process, 'pid', { value: 1000 });
  os.hostname = () => 'simulated';
  syncBuiltinESMExports();
}
