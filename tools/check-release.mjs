// Stops a release whose tag, version, changelog and repository do not agree.
// Usage: node tools/check-release.mjs v0.1.0 https://host/owner/name
import { readFileSync } from 'node:fs';

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

/** @returns what is wrong, in words that say what to do; empty when the release may go out */
export function releaseProblems({ tag, repository, manifest, changelog }) {
  const { version } = manifest;
  const given = manifest.repository?.url.replace(/^git\+/, '').replace(/\.git$/, '') ?? 'nothing';
  const problems = [];
  if (tag !== `v${version}`)
    problems.push(`The tag is ${tag}, the package says ${version}: tag v${version}, or set the version.`);
  if (!changelog.includes(`\n## ${version}`))
    problems.push(`CHANGELOG.md has no "## ${version}": rename "## Unreleased" and add the date.`);
  if (given !== repository)
    problems.push(
      `The package names ${given} as its repository, this is ${repository}: provenance needs the same. See docs/release.md.`,
    );
  return problems;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [tag, repository] = process.argv.slice(2);
  const manifest = JSON.parse(read('libs/distributed-lock/package.json'));
  const problems = releaseProblems({ tag, repository, manifest, changelog: read('CHANGELOG.md') });
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
