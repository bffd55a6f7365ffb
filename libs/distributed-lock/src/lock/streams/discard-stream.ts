import { inBackground } from '../../async-context/in-background.js';
import { streamKindOf, type Streams } from './streams.js';

/** Closes a stream that nobody is going to read. Does nothing with other results. */
export function discardStream(value: unknown): void {
  // An error of closing would be for the reader, and there is none.
  inBackground(close(value), () => undefined);
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
