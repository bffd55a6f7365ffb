// One entry of the reference: what an export is, then each of its members.
import ts from 'typescript';
import { commentOf } from './comments.mjs';
import { inherited } from './inherited.mjs';

/** Called by Nest only in classes with a decorator, and by the package only in errors. */
const CALLED_ELSEWHERE =
  /^(constructor|onModule\w+|onApplication\w+|beforeApplication\w+|intercept|canActivate|catch)$/;

/** @typedef {(name: string) => string | undefined} LinkTo the address of the entry of a name, if it has one */

/**
 * @param {import('./exports.mjs').Export} it
 * @param {Map<string, import('./exports.mjs').Export>} all
 * @param {LinkTo} linkTo
 * @returns {string} the entry as Markdown
 */
export function entryOf(it, all, linkTo) {
  const others = (name) => (name === it.name ? undefined : linkTo(name));
  const [first] = it.statements;
  const commented = it.statements.find((statement) => commentOf(statement, others).prose) ?? first;
  const { prose, tags } = commentOf(commented, others);
  if (it.members) {
    return paragraphs(prose, inherited(first, all, others), tags, ...membersOf(it, others));
  }
  return paragraphs(prose, code(it.statements), tags, typesIn(it.statements, others));
}

const paragraphs = (...texts) => texts.filter(Boolean).join('\n\n');

/** Not "ts": these are declarations, and no program to be compiled. */
function code(nodes) {
  // A constant stays a declaration: without the word it would need a value.
  const lines = nodes.map((node) => node.getText().replace(/^(export )?(declare (?!const))?/, ''));
  return `\`\`\`typescript\n${lines.join('\n')}\n\`\`\``;
}

/** Links for the names in code, which cannot have links in itself. */
function typesIn(nodes, linkTo) {
  const names = new Set();
  const visit = (node) => {
    if (ts.isIdentifier(node) && !ts.isPropertySignature(node.parent)) names.add(node.text);
    ts.forEachChild(node, visit);
  };
  nodes.forEach(visit);
  const links = [...names].filter(linkTo).map((name) => `[\`${name}\`](${linkTo(name)})`);
  return links.length > 0 && `Types: ${links.join(', ')}`;
}

function membersOf({ name, members: all, isMadeByNest }, linkTo) {
  const isMadeElsewhere = isMadeByNest || name.endsWith('Error');
  const members = all.filter((it) => isForUsers(it, isMadeElsewhere));
  const properties = members.filter((it) => !isMethod(it));
  const methods = members.filter(isMethod);
  return [
    properties.map((it) => propertyOf(it, linkTo)).join('\n'),
    typesIn(properties, linkTo),
    ...[...new Set(methods.map(titleOf))].map((title) => {
      const overloads = methods.filter((it) => titleOf(it) === title);
      const { prose, tags } = commentOf(overloads[0], linkTo);
      return paragraphs(`#### ${name}: ${title}`, code(overloads), prose, tags, typesIn(overloads, linkTo));
    }),
  ];
}

const isMethod = (member) =>
  ts.isMethodSignature(member) || ts.isMethodDeclaration(member) || ts.isConstructorDeclaration(member);

const titleOf = (member) => (ts.isConstructorDeclaration(member) ? 'constructor' : member.name.getText());

/** Not what is private, what is named by a symbol, and what no user calls. */
function isForUsers(member, isMadeElsewhere) {
  const kinds = [...(member.modifiers ?? []), ...(member.name ? [member.name] : [])].map(({ kind }) => kind);
  if (kinds.some((kind) => HIDDEN.has(kind))) return false;
  return !(isMadeElsewhere && isMethod(member) && CALLED_ELSEWHERE.test(titleOf(member)));
}

const { PrivateKeyword, ProtectedKeyword, PrivateIdentifier, ComputedPropertyName } = ts.SyntaxKind;
const HIDDEN = new Set([PrivateKeyword, ProtectedKeyword, PrivateIdentifier, ComputedPropertyName]);

function propertyOf(member, linkTo) {
  const { prose, tags } = commentOf(member, linkTo);
  const signature = member
    .getText()
    .replaceAll(/\s+/g, ' ')
    .replace(/^((readonly|get|abstract) )+/, '')
    .replace(/^(\w+) = "(.*)"/, "$1: '$2'")
    .replace(/;$/, '');
  const text = paragraphs(prose, tags).replaceAll('\n', '\n  ');
  return `- \`${signature}\`${text && `\\\n  ${text}`}`;
}
