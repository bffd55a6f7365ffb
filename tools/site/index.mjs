// The tests look at these exports. They need no package.
export { decisionFiles } from './addresses.mjs';
export { deadLinks } from './checks/dead-links.mjs';
export { SIDEBAR } from './pages.mjs';
export { mapLinks } from './stage/map-links.mjs';
export { withParts } from './stage/parts.mjs';
