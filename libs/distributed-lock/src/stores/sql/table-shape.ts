import { noLockTable, type NamedTable } from './lock-table.js';

/** A table as its server describes it. */
export interface TableShape {
  /** Faults of the table as a whole, as that it is a view. */
  readonly faults: readonly string[];
  readonly columns: readonly Column[];
  readonly uniqueKeys: readonly UniqueKey[];
}

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly isNullable: boolean;
  /** The server has no default for the column. */
  readonly mustBeGiven: boolean;
}

export interface UniqueKey {
  readonly name: string;
  /** Whole columns, in order. An expression or a part of a column is `null`. */
  readonly columns: readonly (string | null)[];
  /** The server checks the key for all rows, after each statement. */
  readonly isComplete: boolean;
}

/** The types of the columns that statements write. */
export type Columns = Readonly<Record<string, { readonly type: string; readonly matches: RegExp }>>;

/** @throws LockConfigurationError unless the table is as `lockTableSql` makes it, but for columns that may stay empty */
export function checkShape(shape: TableShape, columns: Columns, named: NamedTable): void {
  const faults = [...shape.faults, ...columnFaults(shape, columns), ...keyFaults(shape, columns)];
  if (faults.length > 0) throw noLockTable(faults, named);
}

function columnFaults(shape: TableShape, expected: Columns): readonly string[] {
  const found = new Map(shape.columns.map((column) => [column.name, column]));
  const missing = Object.entries(expected).filter(([name]) => !found.has(name));
  const wrong = shape.columns.filter(
    ({ name, type }) => isOneOf(expected, name) && !expected[name]!.matches.test(type),
  );
  const others = shape.columns.filter(({ name, mustBeGiven }) => !isOneOf(expected, name) && mustBeGiven);
  return [
    ...(missing.length > 0
      ? [`it lacks ${missing.map(([name, { type }]) => `${name} ${type}`).join(', ')}`]
      : []),
    ...wrong.map(({ name, type }) => `${name} is ${type} and not ${expected[name]!.type}`),
    ...(found.get('state')?.isNullable === false ? ['state must be NULL where a key is free'] : []),
    ...others.map(({ name }) => `its column ${name} has no default`),
  ];
}

/** Checks that `name` is a unique key, and finds others, because of which a write may fail or change another lock's row. */
function keyFaults({ uniqueKeys }: TableShape, expected: Columns): readonly string[] {
  const hasKey = uniqueKeys.some(({ columns, isComplete }) => isComplete && columns.join() === 'name');
  const others = uniqueKeys.filter(
    ({ columns }) =>
      !columns.includes('name') && columns.some((column) => column === null || isOneOf(expected, column)),
  );
  return [
    ...(hasKey ? [] : ['name is not its primary or unique key']),
    ...others.map(({ name }) => `its unique key ${name} refuses rows of different keys`),
  ];
}

function isOneOf(expected: Columns, name: string): boolean {
  return Object.hasOwn(expected, name);
}
