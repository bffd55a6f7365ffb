/** `options` over `defaults`. An option that is `undefined` counts as left out. */
export function overlay<D extends object, O extends object>(defaults: D, options: O): D & O {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...(Object.fromEntries(given) as O) };
}
