import { readFileSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

const IMPORT =
  /^(?:import|export)\s[^'";]*?from\s*['"]([^'"]+)['"]|^import\s*['"]([^'"]+)['"]|\bimport\(['"]([^'"]+)['"]\)/gm;
/** Rooms of one path each, so that a path which is not imported is not loaded. */
const ROOMS = ['admin', 'bullmq', 'fencing', 'leader', 'observe/health', 'observe/otel', 'once', 'testing'];

/**
 * Which compiled modules need Nest, and which of the others these import.
 *
 * @param {string} folder of the compiled modules
 * @returns {{ withNest: ReadonlySet<string>, rooms: Readonly<Record<string, readonly string[]>> }} the modules that import Nest,
 * directly or not; and by room the modules without it that they or the terminal command import
 */
export function modulesOf(folder) {
  const imports = importsIn(folder, '.js');
  const withNest = needNest(imports);
  const isRoot = (file) => withNest.has(file) || file.startsWith(join(folder, 'admin/cli/'));
  const imported = new Set([...imports].flatMap(([file, names]) => (isRoot(file) ? names : [])));
  const rooms = {};
  for (const file of [...imported].toSorted()) {
    if (isRoot(file) || !imports.has(file) || file.endsWith('/index.js')) continue;
    const room = ROOMS.find((it) => file.startsWith(join(folder, it, '/'))) ?? 'core';
    (rooms[basename(room)] ??= []).push(file);
  }
  return { withNest, rooms };
}

/** @returns {ReadonlySet<string>} the declarations below `folder` that import types of Nest, directly or not */
export function typesWithNest(folder) {
  return needNest(importsIn(folder, '.d.ts'));
}

function importsIn(folder, extension) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((it) =>
    it.endsWith(extension),
  );
  return new Map(files.map((file) => [join(folder, file), importsOf(join(folder, file), extension)]));
}

function needNest(imports) {
  const found = new Set();
  const needs = (name) => name.startsWith('@nestjs/') || found.has(name);
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const [file, names] of imports) if (names.some(needs)) found.add(file);
  }
  return found;
}

function importsOf(file, extension) {
  const found = [...readFileSync(file, 'utf8').matchAll(IMPORT)].map(
    (match) => match[1] ?? match[2] ?? match[3],
  );
  return found.map((name) =>
    name.startsWith('.') ? resolve(dirname(file), name.replace(/\.js$/, extension)) : name,
  );
}
