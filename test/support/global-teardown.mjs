export default async function globalTeardown() {
  await globalThis.redisServer?.stop();
}
