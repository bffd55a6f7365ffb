export { makeCertificates } from './make-certificates.mjs';
