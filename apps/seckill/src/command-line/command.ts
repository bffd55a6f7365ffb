/** A program of the command line: its help and its options. */
export interface Command<Options extends OptionTable = OptionTable> {
  /** The command that runs it: `npm run demo`. */
  readonly name: string;
  readonly does: string;
  readonly options: Options;
  /** More lines for `--help`. */
  readonly notes: readonly string[];
}

export type OptionTable = Readonly<Record<string, Flag | Count>>;

/** An option without a value: `--kill`. */
export interface Flag {
  readonly says: string;
}

/** An option with a whole number from 1 to `most`: `--instances 4`. */
export interface Count {
  readonly says: string;
  readonly byDefault: number;
  readonly most: number;
  /** Why there is a `most`, for the message to a user who asks for more. */
  readonly because?: string;
}

/** The values of the command line, by the name of the option. */
export type Values<Options extends OptionTable> = {
  readonly [Name in keyof Options]: Options[Name] extends Count ? number : boolean;
};

export function isCount(option: Flag | Count): option is Count {
  return 'byDefault' in option;
}
