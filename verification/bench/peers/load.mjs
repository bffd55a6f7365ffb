/** Imports a package that is installed here: from anywhere else Node would not find it. @param {string} name */
export function load(name) {
  return import(name);
}
