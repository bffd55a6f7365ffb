/**
 * An address as it may be shown: without user, password and parameters, which may hold a password, too. Of one with an
 * unescaped `?` or `#` before its `@`, what stands between is a password as well.
 */
export function withoutSecrets(url: string): string {
  const [, scheme = '', rest = ''] = /^([a-z][a-z\d+.-]*:\/\/)?(.*)$/is.exec(url) ?? [];
  const [address = ''] = rest.split(/[?#]/);
  if (!address.includes('@') && rest.includes('@')) return `${scheme}…`;
  return scheme + address.slice(address.lastIndexOf('@') + 1);
}
