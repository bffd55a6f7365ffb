import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { bitString, octetString, oid, sequence, set, tagged, TRUE, utcTime, utf8 } from './der.mjs';

const HOUR_MS = 3_600_000;
const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));
const COMMON_NAME = '2.5.4.3';
const SUBJECT_ALT_NAME = '2.5.29.17';
const BASIC_CONSTRAINTS = '2.5.29.19';

/** @type {import('./index.d.mts').makeCertificates} */
export function makeCertificates() {
  const ca = issue('test authority', [extension(BASIC_CONSTRAINTS, sequence(TRUE), TRUE)]);
  const localhost = sequence(
    tagged(0x82, Buffer.from('localhost')),
    tagged(0x87, Buffer.from([127, 0, 0, 1])),
  );
  const server = issue('server', [extension(SUBJECT_ALT_NAME, localhost)], ca);
  const client = issue('client', [], ca);
  return { ca: ca.cert, server: pemsOf(server), client: pemsOf(client) };
}

const pemsOf = ({ key, cert }) => ({ key, cert });

/** Signed by `issuer`, by itself without one. */
function issue(name, extensions, issuer) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const subject = sequence(set(sequence(oid(COMMON_NAME), utf8(name))));
  const { signer = privateKey, subject: issuedBy = subject } = issuer ?? {};
  const content = sequence(
    tagged(0xa0, Buffer.from([0x02, 0x01, 0x02])),
    // Starts with a digit that makes it neither negative nor shorter than it is.
    tagged(0x02, Buffer.from([0x40]), randomBytes(8)),
    ECDSA_WITH_SHA256,
    issuedBy,
    sequence(utcTime(new Date(Date.now() - HOUR_MS)), utcTime(new Date(Date.now() + 24 * HOUR_MS))),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    ...(extensions.length > 0 ? [tagged(0xa3, sequence(...extensions))] : []),
  );
  const der = sequence(content, ECDSA_WITH_SHA256, bitString(sign('sha256', content, signer)));
  const base64 = der.toString('base64').replace(/.{64}/g, '$&\n').trimEnd();
  return {
    subject,
    signer: privateKey,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    cert: `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`,
  };
}

/** @param {string} id @param {Buffer} value @param {Buffer[]} critical */
function extension(id, value, ...critical) {
  return sequence(oid(id), ...critical, octetString(value));
}
