export { unpackDebianPackages } from './unpack-debian-packages.mjs';
