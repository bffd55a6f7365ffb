export { openEmbeddedPostgres } from './open-embedded-postgres.mjs';
