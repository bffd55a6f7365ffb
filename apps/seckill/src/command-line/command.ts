/** A program of the command line: its help and its options. */
export interface Command<Options extends OptionTable = OptionTable> {
  /** The command that runs it: `npm run demo`. */
  readonly name: string;
  readonly does: string;
  readonly options: Options;
  /** More lines for `--help`. */
  readonly notes: readonly string[];
}

export type OptionTable = Readonly<Record<string, Option>>;

export type Option = Flag | Count | Choice;

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

/** An option with one of several words: `--store postgres`. */
export interface Choice {
  readonly says: string;
  readonly names: readonly string[];
  /** In words, as it may depend on other options. */
  readonly byDefault: string;
}

/** The values of the command line, by the name of the option. */
export type Values<Options extends OptionTable> = {
  readonly [Name in keyof Options]: ValueOf<Options[Name]>;
};

/** The value of a choice is `undefined` when the command line does not have the option. */
type ValueOf<It extends Option> = It extends Choice
  ? It['names'][number] | undefined
  : It extends Count
    ? number
    : boolean;

export function isCount(option: Option): option is Count {
  return 'most' in option;
}

export function isChoice(option: Option): option is Choice {
  return 'names' in option;
}
