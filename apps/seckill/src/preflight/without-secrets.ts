/**
 * An address as it may be shown: without user, password and parameters, which may hold a password, too. If an unescaped
 * `?` or `#` comes before the `@`, the text between them is a password as well.
 */
export function withoutSecrets(url: string): string {
  const [, scheme = '', rest = ''] = /^([a-z][a-z\d+.-]*:\/\/)?(.*)$/is.exec(url) ?? [];
  const [address = ''] = rest.split(/[?#]/);
  if (!address.includes('@') && rest.includes('@')) return `${scheme}…`;
  return scheme + address.slice(address.lastIndexOf('@') + 1);
}
