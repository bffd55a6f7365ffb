import { expect, it } from '@jest/globals';
import {
  TLS_PARAMETERS,
  type UrlParameters,
} from '../../libs/distributed-lock/src/connection/url-parameters.js';

interface Case {
  readonly parameters: UrlParameters;
  /** A value for each parameter that is followed and takes no other text. */
  readonly values: Readonly<Record<string, string>>;
  /** The options of the connection for a URL with this query. */
  readonly optionsOf: (query: string) => object;
  /** What a followed value becomes, where it is not its own text, number or flag. */
  readonly seen?: Readonly<Record<string, unknown>>;
}

/** Names that no store knows, among them those that a prototype has. */
const UNKNOWN = [
  'x',
  'Db',
  'poolSize',
  'retry-count',
  'a.b',
  'constructor',
  '__proto__',
  'toString',
  'hasOwnProperty',
];

const arrayWith = (value: unknown): unknown => expect.arrayContaining([value]);
const matching = (pattern: string): unknown => expect.stringMatching(pattern);

/** The parameters of a URL are in the options of the connection, or in the error. */
export function followedOrRefused({ parameters, values, optionsOf, seen = {} }: Case): void {
  const names = [...new Set([...Object.keys(parameters), ...TLS_PARAMETERS, ...UNKNOWN])];

  /** What becomes of a URL with this parameter: the values of its options, or the error. */
  const outcomeOf = (name: string, text: string): unknown => {
    try {
      return Object.values(optionsOf(`${name}=${encodeURIComponent(text)}`));
    } catch (error) {
      return (error as Error).message;
    }
  };

  const expectedOf = (name: string, text: string): unknown => {
    const parameter = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (parameter && 'read' in parameter) return arrayWith(seen[name] ?? parameter.read(text));
    return matching(`the parameter "${name.replaceAll('.', '[.]')}" of its URL. (?!.*some text)`);
  };

  it.each(names)(
    'has the parameter %s of its URL in the options of the connection or in the error',
    (name) => {
      const text = values[name] ?? 'some text';
      expect(outcomeOf(name, text)).toEqual(expectedOf(name, text));
    },
  );

  it('refuses a parameter that is given twice, or has a value that it does not take', () => {
    for (const [name, parameter] of Object.entries(parameters)) {
      if (!('read' in parameter)) continue;
      const text = encodeURIComponent(values[name] ?? 'some text');
      expect(() => optionsOf(`${name}=${text}&${name}=${text}`)).toThrow(
        `"${name}" of its URL. It is given twice`,
      );
      expect(() => optionsOf(`${name}=`)).toThrow(`the parameter "${name}" of its URL. It takes `);
    }
  });
}
