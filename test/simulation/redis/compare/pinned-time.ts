const PINNED =
  "local redis = setmetatable({ call = function(...) if (...) == 'TIME' then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end local reply = redis.call(...) return reply end }, { __index = redis }) ";

/** The same script with a clock of the test's: its last two arguments are what `TIME` answers. */
export function withPinnedTime(source: string): string {
  return PINNED + source;
}

/** The two arguments for this time. */
export function timeArguments(micros: number): readonly [seconds: string, micros: string] {
  return [String(Math.floor(micros / 1_000_000)), String(micros % 1_000_000)];
}
