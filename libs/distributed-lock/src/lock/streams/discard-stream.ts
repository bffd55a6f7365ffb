import { inBackground } from '../../async/in-background.js';
import { streamKindOf, type Streams } from './streams.js';

/** Closes a stream that nobody is going to read; of other results nothing is open. */
export function discardStream(value: unknown): void {
  inBackground(close(value), () => {
    // Its reader would be told, and there is none.
  });
}

async function close(value: unknown): Promise<void> {
  switch (streamKindOf(value)) {
    case 'readable':
      (value as Streams['readable']).destroy();
      break;
    case 'file':
      (value as Streams['file']).getStream().destroy();
      break;
    case 'web stream':
      await (value as Streams['web stream']).cancel();
      break;
    case 'response':
      await close((value as Streams['response']).body);
      break;
    case 'iterator':
    case 'generator':
      await (value as Streams['iterator' | 'generator']).return?.();
      break;
    default:
  }
}
