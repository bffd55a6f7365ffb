// Finds the members that an interface or a class has from those that it extends.
import ts from 'typescript';

/** @returns {string} a sentence with a link to each base of the package, and the names that come from there */
export function inherited(node, all, linkTo) {
  const sentences = basesOf(node, all).map(({ base, omitted, isPartial }) => {
    const target = linkTo(base.name);
    const link = target ? `[\`${base.name}\`](${target})` : `\`${base.name}\``;
    if (ts.isClassDeclaration(node)) return `Extends ${link}.`;
    const own = node.members.map((member) => member.name.getText());
    const names = namesOf(base, all).filter((name) => ![...omitted, ...own].includes(name));
    const which = `${names.map((name) => `\`${name}\``).join(', ')}${isPartial ? ', each optional' : ''}`;
    return node.members.length > 0 ? `Has these, and those of ${link}: ${which}.` : `As ${link}: ${which}.`;
  });
  return sentences.join(' ');
}

/** Of `extends Partial<Omit<A, 'x'>>`: A, without x. */
function basesOf(node, all) {
  const clauses = (node.heritageClauses ?? []).filter(({ token }) => token === ts.SyntaxKind.ExtendsKeyword);
  const texts = clauses.flatMap(({ types }) => types.map((it) => it.getText()));
  return texts.flatMap((text) => {
    const base = text.match(/\w+/g).find((word) => all.has(word));
    const omitted = [...text.matchAll(/'(\w+)'/g)].map(([, name]) => name);
    return base ? [{ base: all.get(base), omitted, isPartial: text.includes('Partial<') }] : [];
  });
}

/** The names of its members, with those that it has from others. */
function namesOf({ statements: [node], members }, all) {
  const own = (members ?? []).flatMap(({ name }) => (name ? [name.getText()] : []));
  return [...basesOf(node, all).flatMap(({ base }) => namesOf(base, all)), ...own];
}
