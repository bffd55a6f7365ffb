import { groupBy } from '../../group-by.mjs';

/**
 * Of each node of a quorum each process is told once that it stopped answering, and once that it answers again; and it
 * takes part again when all is well.
 */
export function nodes({ nodes: told, apps, calmFrom, closingFrom }) {
  const findings = [];
  const before = told.filter(({ at }) => at < closingFrom);
  for (const [whose, states] of groupBy(before, ({ who, node }) => `${who}: node ${node}`)) {
    states.forEach(({ isUp }, i) => {
      if (isUp !== (i % 2 === 1)) findings.push(`${whose} was told ${isUp ? 'up' : 'down'} twice`);
    });
    const last = states.at(-1);
    if (!last.isUp && last.at < calmFrom && apps.get(last.who)?.endedAt > closingFrom)
      findings.push(`${whose} was not asked any more when all was well again: ${last.error}`);
  }
  return findings;
}
