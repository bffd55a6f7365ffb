import type { Outcome } from './source-text.js';

interface Manifest {
  dependencies?: Record<string, string>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** Adds a dependency to the text of a package.json, unless it names the package already. Indent and line ends stay. */
export function addDependency(text: string, name: string, range: string): Outcome {
  const manifest = JSON.parse(text) as Manifest;
  if (manifest.dependencies?.[name] !== undefined) return { kind: 'present' };
  if (manifest.devDependencies?.[name] !== undefined) {
    return {
      kind: 'by-hand',
      reason: `${name} is among the devDependencies, which production installs leave out`,
    };
  }
  const all = Object.entries({ ...manifest.dependencies, [name]: range });
  manifest.dependencies = Object.fromEntries(all.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const indent = /^([ \t]+)"/m.exec(text)?.[1] ?? '  ';
  const ending = /\s*$/.exec(text)?.[0] ?? '';
  const written = JSON.stringify(manifest, null, indent) + ending;
  return { kind: 'changed', text: text.includes('\r\n') ? written.replaceAll(/\r?\n/g, '\r\n') : written };
}
