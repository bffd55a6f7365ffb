/** A program for `node --import`: from then on no package that `names` matches can be found, by `import` or by `require`. */
export function withoutPackages(names: RegExp): string {
  const hooks = `
    export async function resolve(name, context, next) {
      if (!${names}.test(name)) return next(name, context);
      throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: 'ERR_MODULE_NOT_FOUND' });
    }`;
  return asUrl(`
    import Module, { register } from 'node:module';
    register(${JSON.stringify(asUrl(hooks))});
    const resolve = Module._resolveFilename;
    Module._resolveFilename = function (name, ...more) {
      if (!${names}.test(name)) return resolve.call(this, name, ...more);
      throw Object.assign(new Error("Cannot find module '" + name + "'"), { code: 'MODULE_NOT_FOUND' });
    };`);
}

function asUrl(program: string): string {
  return `data:text/javascript,${encodeURIComponent(program)}`;
}
