/** An address as it may be shown: without user, password and parameters, which may hold a password, too. */
export function withoutSecrets(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/^([a-z][a-z\d+.-]*:\/\/)?.*@/is, '$1');
}
