/** The networks that are hit: that of one process, or of all. */
export function networksHit({ random, running, victims: hurt, store }) {
  const apps = random.chance(0.5) ? [random.pick(hurt)] : running;
  return apps.flatMap((app) => store.networksOf(app.name));
}
