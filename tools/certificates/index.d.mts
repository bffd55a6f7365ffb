/** A private key and a certificate for it, both as PEM. */
export interface Identity {
  readonly key: string;
  readonly cert: string;
}

export interface Certificates {
  /** The authority that signed the others, as PEM. */
  readonly ca: string;
  /** For a server on 127.0.0.1 or localhost. */
  readonly server: Identity;
  /** For a client that must show who it is. Its common name is `client`. */
  readonly client: Identity;
}

/** Makes an authority for one test, and signs a server's and a client's certificate with it. They last a day. */
export function makeCertificates(): Certificates;
