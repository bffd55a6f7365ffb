/** A text without the password of a URL, in whatever form a client repeats it. */
export function withoutSecrets(text: string, url: string): string {
  const [, inUser] = /^[a-z]+:\/\/[^:@/]*:(.*)@/is.exec(url) ?? [];
  const inQuery = [...url.matchAll(/[?&][^=&]*(?:pass|auth|key)[^=&]*=([^&]+)/gi)].map(([, value]) => value);
  const secrets = [inUser, ...inQuery].filter((it) => it !== undefined && it !== '') as string[];
  const forms = secrets.flatMap((secret) => [secret, decoded(secret)]);
  return forms.reduce((shown, secret) => shown.replaceAll(secret, '***'), text);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
