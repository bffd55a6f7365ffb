export { PeerLinks } from './peer-links.mjs';
