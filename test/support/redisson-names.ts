/** A name that contains a brace is its own hash tag. */
export function tagged(prefix: string, name: string): string {
  return name.includes('{') ? `${prefix}:${name}` : `${prefix}:{${name}}`;
}

/** Where what belongs to `name` begins. */
export function braced(name: string): string {
  return name.includes('{') ? name : `{${name}}`;
}
